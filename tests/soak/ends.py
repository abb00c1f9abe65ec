"""Signals at random moments of commands and of the window: exit codes, what is said, how soon.

  python -m tests.soak.ends                 100 Ctrl+C for each of four programs
  python -m tests.soak.ends 20 SIGTERM      20 of another signal

Each program is run once to its end, or until its window is idle; the moments are spread over that
time. They begin where Python has started and calls the program: what comes before is Python's own.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.helpers.demo import copy_demo
from tests.helpers.patience import PROGRAM_S

_ROOT = Path(__file__).resolve().parents[2]
_PROGRAM = (
    "import sys; from explorer.__main__ import main; print('.', flush=True); sys.exit(main())"
)
_WINDOW_S = 4.0
_SCREEN = "This plugin does not support"  # what the offscreen platform says of itself


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _start(arguments: list[str], environment: dict[str, str]) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", _PROGRAM, *arguments],
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == ".\n"
    return process


def _signal_one(
    arguments: list[str], environment: dict[str, str], delay_s: float, number: int
) -> tuple[int, str, float]:
    """Return the exit code, what was said, and the seconds from the signal to the end."""
    process = _start(arguments, environment)
    time.sleep(delay_s)
    sent = time.monotonic()
    process.send_signal(number)
    errors = process.communicate(timeout=PROGRAM_S)[1]
    said = "".join(line for line in errors.splitlines(True) if _SCREEN not in line)
    return process.returncode, said, time.monotonic() - sent


def campaign(
    name: str, arguments: list[str], folder: Path, count: int, number: int
) -> tuple[Counter[int], int]:
    """Send `count` signals to a program; print the figures, and return exit codes and noise."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(_ROOT),
        "QT_QPA_PLATFORM": "offscreen",
        "HOME": str(folder),
        "XDG_CONFIG_HOME": str(folder / "config"),
        "GGUF_EXPLORER_CACHE": str(folder / "cache"),
    }
    compiles = name.endswith("compiles")
    if compiles:
        environment["NUMBA_CACHE_DIR"] = str(folder / "kernels")
    started = time.monotonic()
    if name == "window":
        process = _start(arguments, environment)
        time.sleep(_WINDOW_S)
        process.terminate()
    else:
        process = _start(arguments, environment)
    process.communicate(timeout=PROGRAM_S)
    span = time.monotonic() - started
    codes: Counter[int] = Counter()
    noisy, longest = 0, 0.0
    chance = random.Random(number)
    for turn in range(count):
        if compiles:
            shutil.rmtree(folder / "kernels", ignore_errors=True)
        delay = span * (turn + chance.random()) / count
        code, said, seconds = _signal_one(arguments, environment, delay, number)
        codes[code] += 1
        longest = max(longest, seconds)
        if said:
            noisy += 1
            _say(f"  after {delay:.3f} s: {code}: {said[-500:]}")
    left = [path.name for name in ("*.tmp", "unfinished/*") for path in folder.rglob(name)]
    _say(
        f"{name}: {count} signals over {span:.1f} s: exit codes {dict(codes)}, "
        f"{noisy} said something, longest wait {longest:.2f} s, left over: {left}"
    )
    return codes, noisy


def main() -> None:
    """Run all campaigns; `sys.argv` may name a count and a signal."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    number = getattr(signal, sys.argv[2] if len(sys.argv) > 2 else "SIGINT")
    folder = Path(tempfile.mkdtemp(prefix="ends-"))
    try:
        model = str(copy_demo(folder / "demo"))
        tensor = "blk.0.attn_q.weight"
        target = str(folder / "weights.npy")
        for name, arguments in (
            ("inspect", ["inspect", model]),
            ("export", ["export", model, tensor, "--to", target]),
            ("stats, which compiles", ["stats", model, tensor]),
            ("window", [model]),
        ):
            campaign(name, arguments, folder, count, number)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
