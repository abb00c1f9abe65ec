r"""The campaign of mutated files: a million of each format, each made from its number.

    python -m tests.soak.fuzz --inputs 1000000 --processes 2
    python -m tests.soak.fuzz --formats gguf --seed 1 --case 4711 --write /tmp/case.gguf

A finding is anything but an `ExplorerError`, a case that takes longer than its size allows
(`allowed_seconds`) each of three times, or more than `MOST_BYTES` of memory. One case in
`LARGE_EVERY` is made of a file of megabytes. Findings of one kind and place count once; the first
case of each is told, and can be written to a file.
"""

from __future__ import annotations

import argparse
import multiprocessing
import multiprocessing.pool
import resource
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from explorer.errors import ExplorerError
from tests.soak.targets import Target, make_targets, open_and_look

MOST_SECONDS = 0.25
MOST_BYTES = 100 << 20
LARGE_EVERY = 500

_TRIES = 3

_BATCH = 2_000
_ADDRESS_SPACE = 4 << 30  # behind this a case gets a MemoryError, and is a finding
_Task = tuple[str, Path, int, range]  # name of the target, folder, seed, numbers of the cases
_PACKAGE = str(Path(__file__).resolve().parents[2] / "explorer")


@dataclass
class Result:
    """What some cases gave.

    Attributes:
        inputs: How many there were.
        opened: How many of them opened.
        seconds: What they took of the processor, with making them.
        slowest: Seconds of the slowest case, and its number. Of the wall's clock where that is
            well within the limit, of the processor's else.
        largest: Bytes that a batch took at most beyond what the process had before.
        findings: Kind and place → number of its first case.
        counts: Kind and place → cases.
    """

    inputs: int = 0
    opened: int = 0
    seconds: float = 0.0
    slowest: tuple[float, int] = (0.0, 0)
    largest: int = 0
    findings: dict[str, int] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)

    def add(self, other: Result) -> None:
        """Take in the result of other cases."""
        self.inputs += other.inputs
        self.opened += other.opened
        self.seconds += other.seconds
        self.slowest = max(self.slowest, other.slowest)
        self.largest = max(self.largest, other.largest)
        self.counts += other.counts
        for place, case in other.findings.items():
            self.findings[place] = min(case, self.findings.get(place, case))

    def note(self, place: str, case: int) -> None:
        """Note a finding."""
        self.findings.setdefault(place, case)
        self.counts[place] += 1


def make_case(target: Target, seed: int, case: int) -> bytes:
    """Return the bytes of a case."""
    chance = Random((seed << 40) + case)
    is_large = chance.randrange(LARGE_EVERY) == 0
    content = chance.choice(target.large() if is_large else target.seeds)
    return target.mutate(chance, content, chance.choice(target.seeds))


def allowed_seconds(size: int) -> float:
    """Return how long a file may take to be opened and looked at, each tensor by itself."""
    return MOST_SECONDS + size / 1e6


def run_cases(target: Target, folder: Path, seed: int, cases: range) -> Result:
    """Try cases, one after the other.

    Args:
        target: What to spoil.
        folder: An empty folder, or one that was used for this before.
        seed: Of the campaign.
        cases: Numbers of the cases.
    """
    result = Result()
    warnings.simplefilter("error")  # what a person would see on a terminal is a finding too
    written, opened = _places(target, folder)
    most_before = _most_memory()
    batch_started = time.process_time()
    for case in cases:
        content = make_case(target, seed, case)
        target.write(written, content)
        # Reading the processor's clock costs as much as a case. The wall's costs nothing, and a
        # case that is well within the limit by it needs no second look.
        started = time.perf_counter()
        _try_case(opened, case, result)
        seconds = time.perf_counter() - started
        allowed = allowed_seconds(len(content))
        if seconds > allowed / 4:  # another program may have held it up
            seconds = min(_seconds_of_processor(opened, case) for _ in range(_TRIES))
        result.slowest = max(result.slowest, (seconds, case))
        if seconds > allowed:
            result.note(f"took {seconds:.1f} s", case)
    result.seconds = time.process_time() - batch_started
    result.inputs = len(cases)
    result.largest = _most_memory() - most_before
    if result.largest > MOST_BYTES:
        result.note(f"took {result.largest >> 20} MiB", cases.start)
    return result


def _try_case(path: Path, case: int, result: Result) -> None:
    """Open and look; note a finding."""
    try:
        open_and_look(path)
    except ExplorerError as error:
        if not error.what or not str(error).isprintable():
            result.note("an error whose text is not safe to print", case)
    except Exception as error:  # noqa: BLE001 - what the campaign looks for
        result.note(_place(error), case)
    else:
        result.opened += 1


def _seconds_of_processor(path: Path, case: int) -> float:
    """Try a case again; return the seconds of the processor that it took."""
    started = time.process_time()
    _try_case(path, case, Result())
    return time.process_time() - started


_prepared: dict[Path, tuple[Path, Path]] = {}


def _places(target: Target, folder: Path) -> tuple[Path, Path]:
    """Prepare a folder once; return what is written and what is opened."""
    if folder not in _prepared:
        folder.mkdir(parents=True, exist_ok=True)
        written, opened = _prepared[folder] = target.place(folder)
        for content in target.seeds:  # what is loaded once, such as kernels, is no case's doing
            target.write(written, content)
            _try_case(opened, 0, Result())
    return _prepared[folder]


def _most_memory() -> int:
    """Return the most bytes that this process ever had."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _place(error: Exception) -> str:
    """Return the kind of an error and the innermost line of the program that it came from."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if frame.filename.startswith(_PACKAGE)] or frames
    inner = own[-1]
    name = inner.filename.removeprefix(_PACKAGE).lstrip("/")
    return f"{type(error).__name__} in {name}:{inner.lineno} ({str(error)[:80]!r})"


def _work(task: _Task) -> Result:
    """Try a batch in a process of its own."""
    name, base, seed, cases = task
    resource.setrlimit(resource.RLIMIT_AS, (_ADDRESS_SPACE, _ADDRESS_SPACE))
    own = base / multiprocessing.current_process().name
    target = make_targets_once(own)[name]
    return run_cases(target, own / name, seed, cases)


_targets: dict[Path, dict[str, Target]] = {}


def make_targets_once(folder: Path) -> dict[str, Target]:
    """Return all targets; they are made once in each process."""
    if folder not in _targets:
        folder.mkdir(parents=True, exist_ok=True)
        _targets[folder] = dict(make_targets(folder))
    return _targets[folder]


def _batches(
    name: str, base: Path, seed: int, inputs: range
) -> Iterator[tuple[str, Path, int, range]]:
    for start in range(inputs.start, inputs.stop, _BATCH):
        yield name, base, seed, range(start, min(start + _BATCH, inputs.stop))


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def main() -> int:
    """Run the campaign; the exit code is 1 if it found anything."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--formats", nargs="*", help="which formats; all of them")
    parser.add_argument("--inputs", type=int, default=1_000_000, help="inputs of each format")
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=multiprocessing.cpu_count())
    parser.add_argument("--case", type=int, help="try one case here, with its traceback")
    parser.add_argument("--write", type=Path, help="where to write the bytes of that case")
    given = parser.parse_args()
    memory = Path("/dev/shm")  # a folder that needs no disk, where there is one
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        base = Path(folder)
        targets = make_targets_once(base / "main")
        names = given.formats or list(targets)
        unknown = [name for name in names if name not in targets]
        if unknown:
            parser.error(f"no such format: {', '.join(unknown)}; there are {', '.join(targets)}")
        if given.case is not None:
            return _try_one(targets[names[0]], base, given.seed, given.case, given.write)
        found = 0
        with multiprocessing.Pool(given.processes) as pool:
            for name in names:
                inputs = range(given.first, given.first + given.inputs)
                found += _campaign(pool, name, base, given.seed, inputs)
    return 1 if found else 0


def _try_one(target: Target, base: Path, seed: int, case: int, write: Path | None) -> int:
    """Try one case, and let its error through."""
    content = make_case(target, seed, case)
    if write is not None:
        write.write_bytes(content)
    written, opened = target.place(base)
    target.write(written, content)
    try:
        open_and_look(opened)
    except ExplorerError as error:
        _say(f"refused: {error!s:.300}")
    else:
        _say("opened")
    return 0


def _campaign(
    pool: multiprocessing.pool.Pool, name: str, base: Path, seed: int, inputs: range
) -> int:
    """Try all inputs of a format; return how many kinds of findings there were."""
    total = Result()
    started = time.monotonic()
    for result in pool.imap_unordered(_work, _batches(name, base, seed, inputs)):
        total.add(result)
    _say(
        f"{name}: {total.inputs:,} inputs, {total.opened:,} opened, {total.seconds:,.0f} s of the "
        f"processor, {time.monotonic() - started:,.0f} s, slowest {total.slowest[0] * 1000:.0f} ms "
        f"(case {total.slowest[1]}), most memory {total.largest >> 20} MiB, "
        f"{len(total.findings)} findings (seed {seed})"
    )
    for place, case in total.findings.items():
        _say(f"  {total.counts[place]:,} × {place}: --formats {name} --seed {seed} --case {case}")
    return len(total.findings)


if __name__ == "__main__":
    sys.exit(main())
