"""Compiled kernels are kept in the user's folder, and never outlive the sources they come from."""

from __future__ import annotations

import ast
import gc
import os
import pickle
import shutil
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages

import pytest
from numba.core.dispatcher import Dispatcher

import explorer.analysis
import explorer.quantization
from explorer.private_folder import PrivateFolder, seal
from explorer.quantization import jit, kernel_cache, registry
from explorer.quantization.kernel_cache import (
    SOURCES,
    UNUSED_S,
    choose_kernel_folder,
    source_digest,
)
from explorer.quantization.types import TENSOR_TYPES

_PACKAGE = Path(explorer.__file__).parent
_ROOT = _PACKAGE.parent
# What modules with kernels import, and no kernel has inside it.
_NOT_COMPILED = {
    "explorer.quantization.registry",
    "explorer.quantization.kernel_cache",
    "explorer.parallel",
    "explorer.paths",
    "explorer.private_folder",
}

posix = pytest.mark.skipif(os.name != "posix", reason="needs owners and modes of folders")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder of the user, and no folder named."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", "")
    monkeypatch.setenv("GGUF_EXPLORER_CACHE", str(tmp_path / "user"))
    return tmp_path / "user"


def _choose() -> Path:
    folder = choose_kernel_folder()
    assert folder is not None
    return folder.path


def test_a_folder_of_this_version_in_the_users_cache(cache: Path) -> None:
    assert _choose() == cache / f"kernels-{source_digest()}"
    assert _choose().is_dir()


def test_the_users_own_choice_stands_and_is_made_private(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    named = tmp_path / "elsewhere" / "kernels"
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(named))
    assert _choose() == named
    assert os.name != "posix" or stat.S_IMODE(named.stat().st_mode) == 0o700
    assert not cache.exists()


@posix
def test_a_chosen_folder_that_others_may_write_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("explorer.private_folder._warning", "")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "named"))
    _choose().chmod(0o777)
    assert choose_kernel_folder() is None
    assert caplog.messages == [
        f"nothing is kept in {tmp_path / 'named'}: other users can write to it; "
        "`chmod go-w` mends that"
    ]


def test_unused_folders_are_removed(cache: Path) -> None:
    old, recent, other = cache / "kernels-old", cache / "kernels-recent", cache / "demo-1"
    for folder in (old, recent, other):
        (folder / "inner").mkdir(parents=True)
    long_ago = time.time() - UNUSED_S - 60
    for folder in (old, other):
        os.utime(folder, (long_ago, long_ago))
    _choose()
    assert not old.exists()
    assert recent.exists()
    assert other.exists()


def test_of_many_folders_the_newest_are_kept(cache: Path) -> None:
    now = time.time()
    for age in range(40):
        folder = cache / f"kernels-{age}"
        folder.mkdir(parents=True)
        os.utime(folder, (now - 60 * age, now - 60 * age))
    chosen = _choose()
    assert {folder.name for folder in cache.iterdir()} == {
        chosen.name,
        *(f"kernels-{age}" for age in range(16)),
    }


def test_using_a_folder_keeps_it(cache: Path) -> None:
    folder = _choose()
    os.utime(folder, (0, 0))
    assert _choose().stat().st_mtime > time.time() - 60


def test_every_edit_of_a_source_gives_another_folder(tmp_path: Path) -> None:
    source = tmp_path / "quantization" / "legacy.py"
    source.parent.mkdir(parents=True)
    digests = {source_digest(tmp_path)}
    for text in ("a = 1", "a = 2"):
        source.write_text(text)
        digests.add(source_digest(tmp_path))
    source.rename(source.with_name("other.py"))
    digests.add(source_digest(tmp_path))
    assert len(digests) == 4


def _file(name: str) -> Path | None:
    """Return the source of one of the program's modules; None for another name."""
    place = _ROOT.joinpath(*name.split("."))
    files = (place.with_suffix(".py"), place / "__init__.py")
    return next((path for path in files if path.is_file()), None)


def _imports(path: Path) -> set[Path]:
    """Return the program's own modules that a module with kernels imports from."""
    source = path.read_text(encoding="utf-8")
    if "explorer.quantization" not in source:
        return set()  # has no kernels
    tree = ast.parse(source)
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                found.add(_file(f"{node.module}.{alias.name}") or _file(node.module))
    return {path for path in found if path is not None}


def test_whatever_is_compiled_into_kernels_counts_as_a_source() -> None:
    sources = {path for pattern in SOURCES for path in _PACKAGE.glob(pattern)}
    jit = _file("explorer.quantization.jit")
    with_kernels = {path for path in _PACKAGE.rglob("*.py") if jit in _imports(path)}
    assert len(with_kernels) > 12
    assert with_kernels <= sources
    for path in with_kernels:
        compiled = _imports(path) - {_file(name) for name in _NOT_COMPILED}
        assert compiled <= sources, path


_PROGRAM = """
import explorer.quantization.jit as jit
from explorer.quantization.grouped.encode import GroupRounder
from explorer.quantization import dequantize
assert dequantize(bytes([0, 0x3C]) + bytes([1] * 32), "Q8_0").tolist() == [1.0] * 32
assert dequantize(bytes([0, 0x3C]) + bytes([0x99] * 16), "Q4_0").tolist() == [1.0] * 32
"""


def _run(before: str, **environment: str) -> None:
    result = subprocess.run(
        [sys.executable, "-c", before + _PROGRAM],
        check=False,
        cwd=_ROOT,
        env={**os.environ, "NUMBA_CACHE_DIR": "", **environment},
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr


def test_kernels_are_kept_there_even_if_numba_was_imported_before(tmp_path: Path) -> None:
    _run("import numba\n", GGUF_EXPLORER_CACHE=str(tmp_path))
    assert list(
        tmp_path.glob("kernels-*/explorer.quantization.bit_kernels.Q8_0._write_weights-*.nbc")
    )


def test_where_nothing_can_be_written_kernels_are_compiled_for_the_process(tmp_path: Path) -> None:
    nowhere = tmp_path / "file"
    nowhere.write_text("")
    _run("", GGUF_EXPLORER_CACHE=str(nowhere / "below"), TMPDIR=str(tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


_NO_ROOM = """
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))  # as on a full disk: no byte can be written
"""


@pytest.mark.skipif(os.name != "posix", reason="needs limits of files")
def test_a_full_disk_costs_the_cache_and_not_the_call(tmp_path: Path) -> None:
    _run(_NO_ROOM, GGUF_EXPLORER_CACHE=str(tmp_path))
    assert list(tmp_path.glob("kernels-*"))
    assert not list(tmp_path.rglob("*.nbc"))
    assert not list((tmp_path / "unfinished").iterdir())


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache folder of the user with compiled kernels; for copying only."""
    folder = tmp_path_factory.mktemp("kept")
    _run("", GGUF_EXPLORER_CACHE=str(folder))
    return folder


def _flip(file: Path, other: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 16
    file.write_bytes(content)


def _swap(file: Path, other: Path) -> None:
    content = file.read_bytes()
    file.write_bytes(other.read_bytes())
    other.write_bytes(content)


@pytest.mark.parametrize("damage", [_flip, _swap])
def test_damaged_machine_code_is_never_run(
    tmp_path: Path, kept: Path, damage: Callable[[Path, Path], None]
) -> None:
    shutil.copytree(kept, tmp_path, dirs_exist_ok=True)
    (file,) = tmp_path.rglob("*.Q8_0._write_weights-*.nbc")
    other = next(path for path in tmp_path.rglob("*.nbc") if path != file)
    before = file.read_bytes()
    damage(file, other)
    assert file.read_bytes() != before
    _run("", GGUF_EXPLORER_CACHE=str(tmp_path))
    folder = PrivateFolder(file.parent.name, root=tmp_path)
    assert folder.read(file.name, kernel_cache.MAX_BYTES)


@pytest.mark.slow
def test_foreign_code_with_a_right_digest_costs_the_cache_and_not_the_call(
    tmp_path: Path, kept: Path
) -> None:
    shutil.copytree(kept, tmp_path, dirs_exist_ok=True)
    (file,) = tmp_path.rglob("*.Q8_0._write_weights-*.nbc")
    for foreign in (pickle.dumps((1, 2)), pickle.dumps("text"), b"no pickle"):
        file.write_bytes(foreign + seal(file, foreign))
        _run("", GGUF_EXPLORER_CACHE=str(tmp_path))


def test_compiling_can_be_seen_and_loading_is_none(tmp_path: Path) -> None:
    program = """
import numpy as np
from explorer.quantization import dequantize, jit, kernel_cache
from numba.core import event
seen = []
class Listener(event.Listener):
    def on_start(self, _event):
        seen.append(kernel_cache.is_compiling())
    def on_end(self, _event):
        pass
event.register("numba:compile", Listener())
dequantize(np.zeros(34, np.uint8), "Q8_0")
assert bool(seen) is WANTED and all(seen) and not kernel_cache.is_compiling()
"""
    for wanted in ("True", "False"):
        _run(program.replace("WANTED", wanted), GGUF_EXPLORER_CACHE=str(tmp_path))


def test_a_program_that_lies_elsewhere_finds_its_kernels(tmp_path: Path) -> None:
    """An AppImage lies at another path at each start."""
    program = """
import sys
sys.path.insert(0, sys.argv[1])
from module import double
double(1.0)
print(sum(double.stats.cache_hits.values()))
"""
    hits = []
    for place in ("one", "other"):
        folder = tmp_path / place
        folder.mkdir()
        (folder / "module.py").write_text(
            "from explorer.quantization import jit\n@jit.kernel\ndef double(x):\n    return x + x\n"
        )
        result = subprocess.run(
            [sys.executable, "-c", program, str(folder)],
            check=True,
            cwd=_ROOT,
            env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache")},
            capture_output=True,
            text=True,
        )
        hits.append(result.stdout.strip())
    assert hits == ["0", "1"]


def test_machine_code_is_named_by_the_types_that_it_is_for(tmp_path: Path) -> None:
    """Else two processes that save at once give one number to code for two types."""
    program = """
import numpy as np
from pathlib import Path
from explorer.quantization import jit
@jit.kernel
def double(values):
    for i in range(len(values)):
        values[i] += values[i]
def names():
    return {path.name for path in Path(double._cache.cache_path).glob("*.nbc")}
found = []
for kind in ORDER:
    before = names()
    double(np.ones(3, kind))
    found += [(kind, *(names() - before))]
print(sorted(found))
"""
    said = []
    for order in (["f4", "f8"], ["f8", "f4"]):
        folder = tmp_path / order[0]
        file = tmp_path / "own.py"
        file.write_text(program.replace("ORDER", repr(order)))
        result = subprocess.run(
            [sys.executable, str(file)],
            check=True,
            cwd=_ROOT,
            env={**os.environ, "NUMBA_CACHE_DIR": str(folder), "PYTHONPATH": str(_ROOT)},
            capture_output=True,
            text=True,
        )
        said.append(result.stdout)
    assert said[0] == said[1]
    assert said[0].count(".nbc") == 2


def test_no_kernel_is_called_by_another() -> None:
    """What such a call would be compiled from is let go when a kernel is read from disk."""
    for name in TENSOR_TYPES:
        if registry.has_decoder(name):
            registry.decoder_kernel(name)
        if registry.has_encoder(name):
            registry.encoder(name)
    for package in (explorer.analysis, explorer.quantization):
        for module in walk_packages(package.__path__, f"{package.__name__}."):
            import_module(module.name)
    # by its class: a weak proxy that others left asks what is gone
    compiled = [one for one in gc.get_objects() if issubclass(type(one), Dispatcher)]
    kernels = [one for one in compiled if isinstance(one._cache, jit._KernelCache)]
    assert len(kernels) > 100
    for function in (one.py_func for one in compiled):
        named = [function.__globals__.get(name) for name in function.__code__.co_names]
        enclosed = [cell.cell_contents for cell in function.__closure__ or ()]
        assert not any(one is used for one in kernels for used in named + enclosed), function


def test_a_kernel_that_is_read_takes_no_room_for_callers(tmp_path: Path) -> None:
    program = """
import numpy as np
from explorer.quantization import dequantize, registry
dequantize(np.zeros(34, np.uint8), "Q8_0")
(loaded,) = registry.decoder_kernel("Q8_0").overloads.values()
print(loaded.library._shared_module)
"""
    for _ in range(2):
        said = subprocess.run(
            [sys.executable, "-c", program],
            check=True,
            cwd=_ROOT,
            env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)},
            capture_output=True,
            text=True,
        ).stdout
    assert said == "None\n"
