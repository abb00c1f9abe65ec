"""Compiled kernels are kept in the user's folder, and never outlive the sources they come from."""

from __future__ import annotations

import ast
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import explorer
from explorer.ends import mark_as_running
from explorer.quantization import kernel_cache
from explorer.quantization.kernel_cache import (
    ABANDONED_S,
    KEPT_S,
    SOURCES,
    choose_kernel_cache,
    source_digest,
)

_PACKAGE = Path(explorer.__file__).parent
_ROOT = _PACKAGE.parent
# What modules with kernels import, and no kernel has inside it.
_NOT_COMPILED = {
    "explorer.quantization.registry",
    "explorer.quantization.kernel_cache",
    "explorer.paths",
}

posix = pytest.mark.skipif(os.name != "posix", reason="needs owners and modes of folders")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder of the user, and no folder chosen."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", "")  # so that what a test sets is taken back
    monkeypatch.setenv("GGUF_EXPLORER_CACHE", str(tmp_path / "user"))
    return tmp_path / "user"


def _chosen() -> str:
    return os.environ["NUMBA_CACHE_DIR"]


def test_a_folder_of_this_version_in_the_users_cache(cache: Path) -> None:
    choose_kernel_cache()
    assert _chosen() == str(cache / f"kernels-{source_digest()}")
    assert Path(_chosen()).is_dir()


def test_the_users_own_choice_stands_and_is_made_private(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    named = tmp_path / "elsewhere" / "kernels"
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(named))
    choose_kernel_cache()
    assert _chosen() == str(named)
    assert os.name != "posix" or stat.S_IMODE(named.stat().st_mode) == 0o700
    assert not cache.exists()


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of temporary files."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def _is_temporary(folder: str, temporary: Path) -> bool:
    found = os.stat(folder)
    return Path(folder).parent == temporary and stat.S_IMODE(found.st_mode) == 0o700


def test_without_a_folder_that_can_be_made_a_temporary_one_is_chosen(
    cache: Path, temporary: Path
) -> None:
    cache.write_text("a file where the folder would be")
    choose_kernel_cache()
    assert _is_temporary(_chosen(), temporary)


@posix
def test_the_folders_are_closed_to_others(cache: Path) -> None:
    old = os.umask(0o002)
    try:
        choose_kernel_cache()
    finally:
        os.umask(old)
    assert [stat.S_IMODE(os.stat(each).st_mode) for each in (cache, _chosen())] == [0o700] * 2


def _open_to(mode: int) -> Callable[[Path], None]:
    return lambda folder: folder.chmod(mode)


def _behind_a_link(folder: Path) -> None:
    real = folder.rename(folder.with_name("real"))
    folder.symlink_to(real)


@posix
@pytest.mark.parametrize("damage", [_open_to(0o770), _open_to(0o707), _behind_a_link])
@pytest.mark.parametrize("which", ["cache", "kernels", "inner", "named"])
def test_a_folder_that_others_may_write_is_refused(
    cache: Path,
    temporary: Path,
    caplog: pytest.LogCaptureFixture,
    which: str,
    damage: Callable[[Path], None],
) -> None:
    choose_kernel_cache()
    kernels = _chosen()
    inner = kernel_cache.kernel_folder("legacy_ab")
    damage({"cache": cache, "inner": inner}.get(which, Path(kernels)))
    os.environ["NUMBA_CACHE_DIR"] = kernels if which == "named" else ""
    choose_kernel_cache()
    assert _is_temporary(_chosen(), temporary)
    (said,) = caplog.messages
    assert said == kernel_cache.why_not_kept()
    assert said.startswith("compiled kernels are kept for this run only: ")
    choose_kernel_cache()
    assert len(caplog.messages) == 1


@posix
def test_another_user_s_folder_is_refused(
    cache: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache.mkdir()
    monkeypatch.setattr(os, "geteuid", lambda: cache.stat().st_uid + 1)
    choose_kernel_cache()
    assert _is_temporary(_chosen(), temporary)


def test_a_temporary_folder_goes_with_its_process(tmp_path: Path) -> None:
    nowhere = tmp_path / "file"
    nowhere.write_text("")
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    _run("", GGUF_EXPLORER_CACHE=str(nowhere), TMPDIR=str(temporary))
    assert not list(temporary.iterdir())


_LONG_AGO = time.time() - ABANDONED_S - 60


def test_files_that_a_killed_process_was_writing_are_removed(cache: Path) -> None:
    choose_kernel_cache()
    inner = Path(_chosen()) / "kernels"
    inner.mkdir()
    name = "module.kernel-12.py311.1.nbc"
    unfinished, young = f"{name}.tmp.0123456789abcdef", f"{name}.tmp.fedcba9876543210"
    others = [name, young, f"{name}.tmp.mine", "notes.tmp.0123456789abcdef"]
    for each in (unfinished, *others):
        (inner / each).write_bytes(b"half")
        if each != young:
            os.utime(inner / each, (_LONG_AGO, _LONG_AGO))
    os.environ["NUMBA_CACHE_DIR"] = ""
    choose_kernel_cache()
    assert sorted(path.name for path in inner.iterdir()) == sorted(others)


@posix
def test_links_and_folders_under_such_names_are_left_alone(cache: Path, tmp_path: Path) -> None:
    choose_kernel_cache()
    inner = Path(_chosen()) / "kernels"
    inner.mkdir()
    (tmp_path / "mine").write_text("mine")
    os.utime(tmp_path / "mine", (_LONG_AGO, _LONG_AGO))
    link, folder = (inner / f"a.nbi.tmp.{digit * 16}" for digit in "01")
    link.symlink_to(tmp_path / "mine")
    os.utime(link, (_LONG_AGO, _LONG_AGO), follow_symlinks=False)
    folder.mkdir()
    os.utime(folder, (_LONG_AGO, _LONG_AGO))
    os.environ["NUMBA_CACHE_DIR"] = ""
    choose_kernel_cache()
    assert link.is_symlink()
    assert folder.is_dir()
    assert (tmp_path / "mine").read_text() == "mine"


@posix
def test_a_temporary_folder_of_a_killed_process_goes_at_a_later_start(tmp_path: Path) -> None:
    nowhere = tmp_path / "file"
    nowhere.write_text("")
    temporary = tmp_path / "temporary"
    temporary.mkdir()

    def start(end: str = "") -> int:
        choose = "from explorer.quantization.kernel_cache import choose_kernel_cache as choose"
        places = {"GGUF_EXPLORER_CACHE": str(nowhere), "TMPDIR": str(temporary)}
        return subprocess.run(
            [sys.executable, "-c", f"import os, signal; {choose}; choose(); {end}"],
            cwd=_ROOT,
            env={**os.environ, "NUMBA_CACHE_DIR": "", **places},
            check=False,
        ).returncode

    assert start("os.kill(os.getpid(), signal.SIGKILL)") == -signal.SIGKILL
    (left,) = temporary.iterdir()
    assert start() == 0
    assert left.exists()  # it is young
    os.utime(left, (_LONG_AGO, _LONG_AGO))
    with open(left / ".running", "rb") as file:
        assert mark_as_running(file)
        assert start() == 0
        assert left.exists()  # a process runs
    assert start() == 0
    assert not list(temporary.iterdir())


@posix
def test_other_folders_of_temporary_files_are_left_alone(
    cache: Path, temporary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine").mkdir()
    link, foreign, own = (temporary / f"gguf-explorer-kernels-{i}.tmp" for i in "123")
    link.symlink_to(tmp_path / "mine")
    foreign.mkdir()
    own.mkdir()
    foreign.chmod(0o777)  # no folder that this program makes
    (temporary / "gguf-explorer-kernels").mkdir()
    for path in (link, foreign, own, temporary / "gguf-explorer-kernels"):
        os.utime(path, (_LONG_AGO, _LONG_AGO), follow_symlinks=False)
    choose_kernel_cache()
    assert not own.exists()
    assert foreign.is_dir()
    assert link.is_symlink()
    assert (tmp_path / "mine").is_dir()
    assert (temporary / "gguf-explorer-kernels").is_dir()


def test_unused_folders_are_removed(cache: Path) -> None:
    old, recent, other = cache / "kernels-old", cache / "kernels-recent", cache / "demo-1"
    for folder in (old, recent, other):
        (folder / "inner").mkdir(parents=True)
    long_ago = time.time() - KEPT_S - 60
    for folder in (old, other):
        os.utime(folder, (long_ago, long_ago))
    choose_kernel_cache()
    assert not old.exists()
    assert recent.exists()
    assert other.exists()


def test_of_many_folders_the_newest_are_kept(cache: Path) -> None:
    now = time.time()
    for age in range(40):
        folder = cache / f"kernels-{age}"
        folder.mkdir(parents=True)
        os.utime(folder, (now - 60 * age, now - 60 * age))
    choose_kernel_cache()
    assert {folder.name for folder in cache.iterdir()} == {
        Path(_chosen()).name,
        *(f"kernels-{age}" for age in range(16)),
    }


def test_using_a_folder_keeps_it(cache: Path) -> None:
    choose_kernel_cache()
    folder = Path(_chosen())
    os.utime(folder, (0, 0))
    os.environ["NUMBA_CACHE_DIR"] = ""
    choose_kernel_cache()
    assert folder.stat().st_mtime > time.time() - 60


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
from explorer.quantization.grouped.kernels import unpack_codes
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
    assert list(tmp_path.glob("kernels-*/*/legacy._decode_q8_0*.nbc"))


def test_where_nothing_can_be_written_kernels_are_compiled_for_the_process(tmp_path: Path) -> None:
    """As on a read-only system: no place for Numba's own cache either."""
    nowhere = tmp_path / "file"
    nowhere.write_text("")
    before = (
        "from numba.core.caching import CacheImpl\n"
        "CacheImpl._locator_classes.clear()  # what Numba finds where it may write nowhere\n"
    )
    _run(before, GGUF_EXPLORER_CACHE=str(nowhere / "below"))


_NO_ROOM = """
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))  # as on a full disk: no byte can be written
"""


@pytest.mark.skipif(os.name != "posix", reason="needs limits of files")
def test_a_full_disk_costs_the_cache_and_not_the_call(tmp_path: Path) -> None:
    _run(_NO_ROOM, GGUF_EXPLORER_CACHE=str(tmp_path))
    assert list(tmp_path.glob("kernels-*"))
    assert not list(tmp_path.rglob("*.nbc"))
    assert not list(tmp_path.rglob("*.tmp.*"))


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache folder of the user with compiled kernels; for copying only."""
    folder = tmp_path_factory.mktemp("kept")
    _run("", GGUF_EXPLORER_CACHE=str(folder))
    return folder


_NAME = Path("kernels-1/legacy_ab/legacy.decode.nbc")


def _write(folder: Path, content: bytes, name: Path = _NAME) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


@given(content=st.binary(max_size=300), data=st.data())
def test_any_damage_is_found_and_the_file_removed(content: bytes, data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = _write(Path(folder), content + kernel_cache.seal(_NAME, content))
        assert kernel_cache.read_sealed(path) == content
        whole = bytearray(path.read_bytes())
        place = data.draw(st.integers(0, len(whole) - 1))
        damaged = data.draw(
            st.sampled_from(
                [
                    bytes(whole[:place]),
                    bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :]),
                    bytes(whole[:place]) + bytes(len(whole) - place),
                    bytes(whole) + b"\0",
                ]
            )
        )
        if damaged != whole:
            path.write_bytes(damaged)
            assert kernel_cache.read_sealed(path) is None
            assert not path.exists()


@pytest.mark.parametrize(
    "name", ["kernels-2/legacy_ab/legacy.decode.nbc", "kernels-1/legacy_ab/legacy.decode.nbi"]
)
def test_a_sound_file_under_another_s_name_is_none(tmp_path: Path, name: str) -> None:
    content = b"code" + kernel_cache.seal(_NAME, b"code")
    assert kernel_cache.read_sealed(_write(tmp_path, content, Path(name))) is None


def _flip(file: Path, other: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 16
    file.write_bytes(content)


def _zero_page(file: Path, other: Path) -> None:
    content = bytearray(file.read_bytes())
    content[:4096] = bytes(len(content[:4096]))
    file.write_bytes(content)


def _swap(file: Path, other: Path) -> None:
    content = file.read_bytes()
    file.write_bytes(other.read_bytes())
    other.write_bytes(content)


@pytest.mark.parametrize("suffix", ["nbi", "nbc"])
@pytest.mark.parametrize("damage", [_flip, _zero_page, _swap])
def test_damaged_machine_code_is_never_run(
    tmp_path: Path, kept: Path, suffix: str, damage: Callable[[Path, Path], None]
) -> None:
    shutil.copytree(kept, tmp_path, dirs_exist_ok=True)
    (file,) = tmp_path.rglob(f"legacy._decode_q8_0*.{suffix}")
    other = next(path for path in tmp_path.rglob(f"*.{suffix}") if path != file)
    before = file.read_bytes()
    damage(file, other)
    assert file.read_bytes() != before
    _run("", GGUF_EXPLORER_CACHE=str(tmp_path))
    assert kernel_cache.read_sealed(file)


@pytest.mark.parametrize("suffix", ["nbi", "nbc"])
def test_kept_kernels_that_were_cut_short_are_made_again(
    tmp_path: Path, kept: Path, suffix: str
) -> None:
    """As a power failure leaves files."""
    shutil.copytree(kept, tmp_path, dirs_exist_ok=True)
    (file,) = tmp_path.rglob(f"legacy._decode_q8_0*.{suffix}")
    whole = file.stat().st_size
    os.truncate(file, whole // 2)
    _run("", GGUF_EXPLORER_CACHE=str(tmp_path))
    assert abs(file.stat().st_size - whole) < whole // 4


def test_a_mark_tells_that_all_is_compiled(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not kernel_cache.lacks_kernels()  # there is no place to keep them
    kernel_cache.note_all_compiled()  # nowhere
    choose_kernel_cache()
    assert kernel_cache.lacks_kernels()
    kernel_cache.note_all_compiled()
    assert not kernel_cache.lacks_kernels()
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(cache / "elsewhere"))
    assert not kernel_cache.lacks_kernels()
    with pytest.raises(FileNotFoundError):
        kernel_cache.note_all_compiled()


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


def _of_a_link(path: Path) -> None:
    path.symlink_to(path.with_name(path.name + ".elsewhere"))


def _of_a_folder(path: Path) -> None:
    path.mkdir()
    (path / "inside").write_text("")


def _of_a_pipe(path: Path) -> None:
    os.mkfifo(path)


def _of_a_closed_file(path: Path) -> None:
    path.touch(0)


def _of_a_huge_file(path: Path) -> None:
    path.touch()
    os.truncate(path, 1 << 40)


@posix
@pytest.mark.parametrize(
    "make", [_of_a_link, _of_a_folder, _of_a_pipe, _of_a_closed_file, _of_a_huge_file]
)
def test_what_is_no_file_of_this_program_is_removed(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    path = tmp_path / "legacy.decode.nbc"
    make(path)
    if make is _of_a_link:
        target = tmp_path / "legacy.decode.nbc.elsewhere"
        target.write_bytes(b"code" + kernel_cache.seal(path, b"code"))
    assert kernel_cache.read_sealed(path) is None
    assert not os.path.lexists(path)
    if make is _of_a_link:
        assert target.exists()


@posix
@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_a_file_that_others_may_write_is_removed(tmp_path: Path, mode: int) -> None:
    path = _write(tmp_path, b"code" + kernel_cache.seal(_NAME, b"code"))
    path.chmod(0o644)
    assert kernel_cache.read_sealed(path) == b"code"
    path.chmod(mode)
    assert kernel_cache.read_sealed(path) is None
    assert not path.exists()


@posix
def test_a_file_of_another_user_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = _write(tmp_path, b"code" + kernel_cache.seal(_NAME, b"code"))
    monkeypatch.setattr(os, "geteuid", lambda: path.stat().st_uid + 1)
    assert kernel_cache.read_sealed(path) is None
    assert not path.exists()


@posix
def test_files_of_the_cache_are_closed_to_others(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        _run("", GGUF_EXPLORER_CACHE=str(tmp_path / "cache"))
    finally:
        os.umask(old)
    kept = [tmp_path / "cache", *(tmp_path / "cache").rglob("*")]
    assert {stat.S_IMODE(path.stat().st_mode) for path in kept} == {0o700, 0o600}


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
    return {path.name for path in Path(double._cache._cache_path).glob("*.nbc")}
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
