r"""The campaign of damages: the cache of compiled kernels is spoilt, and a command runs after each.

    python -m tests.soak.damage --damages 500 --seed 1

A finding is a figure that differs from those of a whole cache, foreign code that runs, a command
that dies twice of one damage, a warning where the damage is mended in silence, or a file of the
cache that is not sound afterwards. The cache is warm, and stays the same one: what a damage leaves
is what the next one finds.
"""

from __future__ import annotations

import argparse
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from explorer.private_folder import PrivateFolder, seal
from explorer.quantization.kernel_cache import MAX_BYTES
from tests.helpers.demo import copy_demo

TENSOR = "blk.0.attn_q.weight"
SECONDS = 900  # a command that takes longer hangs, also where it compiles on a crowded machine

_ROOT = Path(__file__).resolve().parents[2]
_PAGE = 4096
_OTHER_USER = 65_534


@dataclass(frozen=True)
class Place:
    """What there is to spoil.

    Attributes:
        cache: The user's cache folder.
        trap: A file that only foreign code makes.
    """

    cache: Path
    trap: Path

    def files(self) -> list[Path]:
        """Return the kernels."""
        return sorted(path for path in self.cache.rglob("*.nbc") if path.is_file())

    def folders(self) -> list[Path]:
        """Return the user's cache folder, and that of this version."""
        return [self.cache, *{path.parent for path in self.files()}]


class _Trap:
    """Unpickling it makes the file of the trap."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __reduce__(self) -> tuple[Callable[[Path], None], tuple[Path]]:
        return Path.touch, (self._path,)


_Damage = Callable[[Random, Place], None]


def _change(change: Callable[[Random, bytearray], None]) -> _Damage:
    def damage(chance: Random, place: Place) -> None:
        path = chance.choice(place.files())
        content = bytearray(path.read_bytes())
        change(chance, content)
        path.write_bytes(content)

    return damage


def _flip(chance: Random, content: bytearray) -> None:
    content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)


def _cut(chance: Random, content: bytearray) -> None:
    del content[chance.randrange(len(content)) :]


def _zero_page(chance: Random, content: bytearray) -> None:
    start = chance.randrange(0, len(content), _PAGE)
    end = min(start + _PAGE, len(content))
    content[start:end] = bytes(end - start)


def _overwrite(chance: Random, content: bytearray) -> None:
    start = chance.randrange(len(content))
    end = min(start + chance.randint(1, _PAGE), len(content))
    content[start:end] = chance.randbytes(end - start)


def _add(chance: Random, content: bytearray) -> None:
    content += chance.randbytes(chance.randint(1, 100))


def _swap(chance: Random, place: Place) -> None:
    one, other = chance.sample(place.files(), 2)
    content = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(content)


def _delete(chance: Random, place: Place) -> None:
    files = place.files()
    for path in chance.sample(files, chance.randint(1, len(files))):
        path.unlink()


def _link(chance: Random, place: Place) -> None:
    one, other = chance.sample(place.files(), 2)
    one.unlink()
    one.symlink_to(chance.choice([other, Path("/dev/zero"), Path("/nowhere")]))


def _no_file(chance: Random, place: Place) -> None:
    path = chance.choice(place.files())
    path.unlink()
    chance.choice([os.mkfifo, os.mkdir])(path)


def _open_file(chance: Random, place: Place) -> None:
    """Let others write foreign code, with a right digest."""
    path = chance.choice(place.files())
    content = pickle.dumps(_Trap(place.trap))
    path.write_bytes(content + seal(path, content))
    path.chmod(chance.choice([0o620, 0o602, 0o666]))


def _file_of_another(chance: Random, place: Place) -> None:
    path = chance.choice(place.files())
    content = pickle.dumps(_Trap(place.trap))
    path.write_bytes(content + seal(path, content))
    os.chown(path, _OTHER_USER, _OTHER_USER)


def _foreign_pickle(chance: Random, place: Place) -> None:
    path = chance.choice(place.files())
    content = pickle.dumps(_Trap(place.trap))
    if chance.getrandbits(1):  # with the digest of what it was
        content += path.read_bytes()[-32:]
    path.write_bytes(content)


def _foreign_pickle_before(chance: Random, place: Place) -> None:
    path = chance.choice(place.files())
    path.write_bytes(pickle.dumps(_Trap(place.trap)) + path.read_bytes())


def _open_folder(chance: Random, place: Place) -> None:
    chance.choice(place.folders()).chmod(chance.choice([0o770, 0o707, 0o777]))


def _folder_of_another(chance: Random, place: Place) -> None:
    os.chown(chance.choice(place.folders()), _OTHER_USER, _OTHER_USER)


def _linked_folder(chance: Random, place: Place) -> None:
    folder = chance.choice(place.folders())
    folder.symlink_to(folder.rename(folder.with_name(folder.name + ".real")))


OF_FILES: dict[str, _Damage] = {
    "flip a bit": _change(_flip),
    "cut": _change(_cut),
    "zero a page": _change(_zero_page),
    "overwrite": _change(_overwrite),
    "add bytes": _change(_add),
    "swap": _swap,
    "delete": _delete,
    "link": _link,
    "pipe or folder": _no_file,
    "foreign code": _foreign_pickle,
    "foreign code before": _foreign_pickle_before,
    "foreign code others may write": _open_file,
}
"""Damages that are mended in silence."""

OF_FOLDERS: dict[str, _Damage] = {"open folder": _open_folder, "linked folder": _linked_folder}
"""Damages after which nothing is kept, and that is said."""

if hasattr(os, "geteuid") and os.geteuid() == 0:  # only root can give files away
    OF_FILES["foreign code of another user"] = _file_of_another
    OF_FOLDERS["folder of another user"] = _folder_of_another


@dataclass
class Report:
    """What some damages gave.

    Attributes:
        counts: Damages of each kind.
        died: Commands that died, and gave the right figures when they ran again.
        findings: What must not be, with the number of the damage.
    """

    counts: Counter[str] = field(default_factory=Counter)
    died: int = 0
    findings: list[str] = field(default_factory=list)


class Campaign:
    """A warm cache, and the figures of a model."""

    def __init__(self, folder: Path) -> None:
        self.place = Place(folder / "cache", folder / "trap")
        self._model = str(copy_demo(folder / "demo"))
        self._temporary = folder / "temporary"
        self._temporary.mkdir()
        self._figures = self._run().stdout
        assert self._run().stdout == self._figures != ""

    def _run(self) -> subprocess.CompletedProcess[str]:
        """Run the command; one that hangs is ended, and tells where it was."""
        command = [sys.executable, "-m", "explorer", "stats", self._model, TENSOR, "--json"]
        with subprocess.Popen(
            command,
            cwd=_ROOT,
            env={
                **os.environ,
                "GGUF_EXPLORER_CACHE": str(self.place.cache),
                "NUMBA_CACHE_DIR": "",
                "PYTHONFAULTHANDLER": "1",
                "TMPDIR": str(self._temporary),
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            try:
                stdout, stderr = process.communicate(timeout=SECONDS)
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGABRT)
                stdout, stderr = process.communicate()
                stderr = f"hangs: {stderr}"
        return subprocess.CompletedProcess(command, process.returncode, stdout, stderr)

    def damage(self, seed: int, number: int, report: Report, kinds: Sequence[str] = ()) -> None:
        """Do one damage, made from its number, and look what comes of it."""
        chance = Random((seed << 40) + number)
        # a folder's costs seconds: all is compiled anew
        among = list(OF_FILES) if number % 12 else list(OF_FOLDERS)
        kind = chance.choice(list(kinds) or among)
        (OF_FILES | OF_FOLDERS)[kind](chance, self.place)
        report.counts[kind] += 1
        done = self._run()
        hung = [done.stderr[:2000]] if done.stderr.startswith("hangs: ") else []
        if done.returncode < 0:
            report.died += 1
            done = self._run()
        findings = hung + self._findings(done, told=kind in OF_FOLDERS)
        report.findings += [f"{number}: {kind}: {finding}" for finding in findings]
        self._mend_folders()

    def _findings(self, done: subprocess.CompletedProcess[str], *, told: bool) -> list[str]:
        found = []
        if done.returncode:
            found.append(f"ended with {done.returncode}: {done.stderr[-300:]}")
        elif done.stdout != self._figures:
            found.append("wrong figures")
        if self.place.trap.exists():
            found.append("foreign code ran")
            self.place.trap.unlink()
        if bool(done.stderr) != told:
            found.append(f"said: {done.stderr[:300]!r}")
        left = [path.name for path in self._temporary.iterdir()]
        if left:
            found.append(f"left behind: {left}")
        if not told:
            for path in self.place.files():
                folder = PrivateFolder(path.parent.name, root=self.place.cache)
                if folder.read(path.name, MAX_BYTES) is None:
                    found.append(f"not sound: {path.name}")
        return found

    def _mend_folders(self) -> None:
        """Undo the damage of a folder, as a user does who reads what is said."""
        _undo_link(self.place.cache)
        for folder in list(self.place.cache.rglob("*")):
            _undo_link(folder)
        for folder in [self.place.cache, *self.place.cache.rglob("*")]:
            if folder.is_dir():
                os.chown(folder, os.geteuid(), os.getegid())
                folder.chmod(0o700)


def _undo_link(folder: Path) -> None:
    real = folder.with_name(folder.name + ".real")
    if folder.is_symlink() and real.exists():
        folder.unlink()
        real.rename(folder)


def main() -> int:
    """Run the campaign; the exit code is 1 if it found anything."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--damages", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="number of the first damage")
    given = parser.parse_args()
    report, started = Report(), time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        campaign = Campaign(Path(folder))
        for number in range(given.first, given.first + given.damages):
            campaign.damage(given.seed, number, report)
            if report.findings and report.findings[-1].startswith(f"{number}: "):
                sys.stdout.write(report.findings[-1] + "\n")
            if number % 10 == 9:
                spent = time.monotonic() - started
                sys.stdout.write(f"{number + 1 - given.first} damages in {spent:,.0f} s\n")
            sys.stdout.flush()
    for kind, count in sorted(report.counts.items()):
        sys.stdout.write(f"{count:5}  {kind}\n")
    sys.stdout.write(
        f"{sum(report.counts.values())} damages in {time.monotonic() - started:,.0f} s, "
        f"{report.died} deaths, {len(report.findings)} findings (seed {given.seed})\n"
    )
    return 1 if report.findings else 0


if __name__ == "__main__":
    sys.exit(main())
