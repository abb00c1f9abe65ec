"""The user's own llama.cpp, asked for its build or its estimate: found, started, and ended.

Nothing runs by itself: `plan --build own` says so, the window shows the command and asks first. For
an estimate the program lays out memory for
the model without loading it and prints a table; it is ended as soon as the table is there.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Final

from explorer.errors import ExplorerError
from explorer.planner.engines.llama_cpp import allocation as llama_cpp
from explorer.planner.logs.lines import (
    CACHE,
    COMPUTE,
    WEIGHTS,
    LoggedBuffer,
    LoggedDevice,
    Measured,
)
from explorer.planner.logs.reading import parse_log
from explorer.private_folder import scratch_folder
from explorer.text import plain_text, sentence, shorten

PROGRAMS: Final = ("llama-server", "llama-fit-params")
"""What is looked for. The server comes first: the other one counts logits of a whole batch."""

_MOST_OUTPUT: Final = 1 << 22
_PATIENCE_S: Final = 300.0
_STEP_S: Final = 0.05
_END_S: Final = 5.0
# what `--fit` prints after its table; what older servers print once they have loaded the model
_DONE: Final = (b"projected to use", b"no changes needed", b"model loaded", b"is listening")
_NOT_OF_FIT_PARAMS: Final = frozenset({"--kv-unified", "--no-kv-unified"})
_ROW: Final = re.compile(r"(\S{1,80}) ([0-9]{1,12}) ([0-9]{1,12}) ([0-9]{1,12}) ?")
_MIB: Final = 1 << 20
_LONGEST_LINE: Final = 200


class OwnBuildError(ExplorerError):
    """The user's llama.cpp was not found, could not be started, or gave no answer."""


def find_program(named: Path | None = None) -> Path:
    """Return the program to ask: the named file, one in the named folder, or one on the PATH.

    Raises:
        OwnBuildError: There is none.
    """
    if named is not None and not named.is_dir():
        if named.is_file():
            return named.absolute()
        raise OwnBuildError("this program is gone. Choose another llama-server", named)
    for name in PROGRAMS:
        found = shutil.which(name, path=None if named is None else str(named))
        if found is not None and Path(found).is_absolute():  # never one of the current folder
            return Path(found)
    where = "on the PATH" if named is None else "there"
    raise OwnBuildError(f"no {' and no '.join(PROGRAMS)} is {where}. Install or name one", named)


def estimate_command(program: Path, model: Path, arguments: Sequence[str]) -> list[str]:
    """Return the command that prints an estimate for a model.

    Args:
        program: What `find_program` gave.
        model: The model's first file.
        arguments: Those of a plan, as `llama-server` takes them.
    """
    words = [str(program), "--model", str(model.absolute())]
    if program.stem == "llama-fit-params":
        kept = [word for word in arguments if word not in _NOT_OF_FIT_PARAMS]
        return [*words, *kept, "--fit-print", "on"]
    own = ["--fit", "on", "--log-verbosity", "4", "--host", "127.0.0.1", "--port", "0"]
    return [*words, *arguments, *own]


def run_estimate(
    command: Sequence[str], settings: llama_cpp.Settings, check: Callable[[], None]
) -> Measured:
    """Run a command of `estimate_command` and return what it says, for `compare`.

    The program is asked for its version first, which says by which rules the plan is made.

    Args:
        command: The program and its arguments; no shell reads them.
        settings: What the plan was made with.
        check: Called all the time; raises to stop. The program is ended in any case.

    Raises:
        OwnBuildError: It could not be started, or ended without an answer.
    """
    build = build_of(Path(command[0]), check)
    output = _output(command, check)
    found = parse_log([output]).loads
    measured = found[-1] if found else _printed(output.decode("utf-8", "replace"))
    if not measured.buffers:
        raise OwnBuildError(
            f"{Path(command[0]).name} gave no estimate. {sentence(_last_line(output))}"
        )
    asked = asdict(settings) | {"tensor_split": settings.tensor_split}
    if build is not None:
        asked["build"] = build
    return replace(measured, source=Path(command[0]).stem, settings=asked, mapped=False)


_VERSION: Final = re.compile(rb"version: ([0-9]{3,7}) \(")


def build_of(program: Path, check: Callable[[], None] = lambda: None) -> int | None:
    """Return the number of a program's build, which it says itself; None where it does not.

    Raises:
        OwnBuildError: It could not be started.
    """
    found = _VERSION.search(_output([str(program), "--version"], check))
    return None if found is None else int(found[1])


def _output(command: Sequence[str], check: Callable[[], None]) -> bytes:
    """Run a program until it has printed its table, or ends; return what it wrote."""
    # a file, not a pipe: nothing waits, and the program is looked at while it writes
    with scratch_folder() as ours:
        written, empty = ours / "output", ours / "empty"
        empty.mkdir()
        with written.open("xb") as file:
            try:
                process = subprocess.Popen(
                    list(command),
                    stdin=subprocess.DEVNULL,
                    stdout=file,
                    stderr=subprocess.STDOUT,
                    cwd=empty,  # libraries are looked for there, too
                    env=_environment(os.environ),
                )
            except OSError as error:
                what = f"it could not be started: {error.strerror or error}"
                raise OwnBuildError(what, command[0]) from error
            try:
                return _awaited(process, written, check)
            finally:
                _end(process)


def _awaited(process: subprocess.Popen[bytes], path: Path, check: Callable[[], None]) -> bytes:
    begin = time.monotonic()
    while True:
        check()
        ended = process.poll() is not None
        with path.open("rb") as file:
            output = file.read(_MOST_OUTPUT)
        if ended or len(output) == _MOST_OUTPUT or any(word in output for word in _DONE):
            return output
        if time.monotonic() - begin > _PATIENCE_S:
            raise OwnBuildError(f"it gave no estimate within {_PATIENCE_S:.0f} seconds")
        time.sleep(_STEP_S)


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(_END_S)
        except subprocess.TimeoutExpired:
            process.kill()
    process.wait()


# What a program needs to start and to find its libraries, the user's language, and which GPUs it
# sees. All else stays here: tokens, and arguments and libraries of llama.cpp (LLAMA_ARG_…).
_VARIABLES: Final = re.compile(
    "PATH|HOME|USER|LOGNAME|LANG|LANGUAGE|LC_[A-Z]+|TZ|TMPDIR|XDG_RUNTIME_DIR|LD_LIBRARY_PATH|"
    "DYLD_[A-Z_]*LIBRARY_PATH|(CUDA|NVIDIA|HIP|ROCR|HSA|GPU|ZE|ONEAPI|SYCL|VK|MTL|METAL)_[A-Z0-9_]+|"
    "GGML_(CUDA|HIP|VK|SYCL|METAL)_[A-Z0-9_]+|SYSTEMROOT|SYSTEMDRIVE|WINDIR|COMSPEC|PATHEXT|TEMP|TMP|"
    "USERPROFILE|APPDATA|LOCALAPPDATA|PROGRAMDATA|NUMBER_OF_PROCESSORS|PROCESSOR_[A-Z0-9]+",
    re.IGNORECASE,  # names on Windows
)


def _environment(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that the program is started with."""
    return {name: text for name, text in variables.items() if _VARIABLES.fullmatch(name)}


def _printed(text: str) -> Measured:
    """Read what `llama-fit-params` prints: device, model, context and compute in whole MiB."""
    buffers: list[LoggedBuffer] = []
    devices: list[LoggedDevice] = []
    for line in text.splitlines()[-100:]:
        match = _ROW.fullmatch(line)
        if match is None:
            continue
        name = plain_text(match[1])
        if name != "Host":
            devices.append(LoggedDevice(name))
        for kind, mib in zip((WEIGHTS, CACHE, COMPUTE), match.groups()[1:], strict=True):
            buffers.append(LoggedBuffer(name, kind, int(mib) * _MIB, _MIB))
    return Measured("llama-fit-params", {}, tuple(buffers), tuple(devices))


def _last_line(output: bytes) -> str:
    lines = [line for line in output.decode("utf-8", "replace").splitlines() if line.strip()]
    last_line = shorten(plain_text(lines[-1].strip()), _LONGEST_LINE) if lines else ""
    return f"its last words: {last_line}" if last_line else "it said nothing"
