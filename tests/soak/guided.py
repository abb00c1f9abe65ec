r"""Fuzzing that is guided by coverage, with Atheris, which is not among the program's dependencies.

    pip install atheris
    python -m tests.soak.guided gguf -max_total_time=600 CORPUS_FOLDER

Inputs are made as in `tests.soak.fuzz`, but those that reach new code are kept and changed again.
What follows the name of the format are libFuzzer's options. A finding ends the run and leaves a
file: anything but an `ExplorerError`, or an input that takes longer than `allowed_seconds`.
"""

from __future__ import annotations

import importlib
import sys
import tempfile
import time
from pathlib import Path
from random import Random
from typing import Any


def main() -> None:
    """Fuzz one format until libFuzzer's options end it."""
    atheris: Any = importlib.import_module("atheris")
    with atheris.instrument_imports(include=["explorer"]):  # before anything imports them
        from explorer.errors import ExplorerError
        from tests.soak.fuzz import allowed_seconds
        from tests.soak.targets import make_targets, open_and_look

    name = sys.argv.pop(1)
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        target = make_targets(Path(folder))[name]
        place = Path(folder) / name
        place.mkdir()
        written, opened = target.place(place)

        def mutate(content: bytes, most: int, seed: int) -> bytes:
            chance = Random(seed)
            other = chance.choice(target.seeds)
            try:
                changed = target.mutate(chance, content or other, other)
            except (ValueError, LookupError, TypeError, AttributeError):  # no header any more
                changed = target.mutate(chance, other, chance.choice(target.seeds))
            return changed[:most]

        def try_one(content: bytes) -> None:
            target.write(written, content)
            started, said = time.process_time(), ""
            try:
                open_and_look(opened)
            except ExplorerError as error:
                said = str(error)
            assert not said or said.isprintable(), repr(said)
            seconds = time.process_time() - started
            assert seconds <= 4 * allowed_seconds(len(content)), seconds  # code is instrumented

        for seed in target.seeds:  # loads what is loaded late: no input is charged with it
            target.write(written, seed)
            open_and_look(opened)
        atheris.Setup(sys.argv, try_one, custom_mutator=mutate)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
