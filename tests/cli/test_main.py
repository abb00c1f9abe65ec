"""The entry: windows, usage errors, exit codes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from explorer import __version__
from explorer.cli import inspect as inspect_command
from explorer.cli import main as window
from explorer.cli.main import main
from tests.helpers.demo import copy_demo

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[tuple[list[str], bool]]:
    """Calls of the window, which is replaced."""
    calls: list[tuple[list[str], bool]] = []

    def run(paths: list[str], fresh: bool) -> int:
        calls.append((paths, fresh))
        return 0

    module = ModuleType("explorer.qt.app")
    module.run = run  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "explorer.qt.app", module)
    monkeypatch.setattr(window, "find_spec", lambda name: object())
    monkeypatch.setenv("QT_QPA_PLATFORM", "offscreen")
    return calls


@pytest.mark.parametrize(
    ("arguments", "paths", "fresh"),
    [
        ([], [], False),
        (["--fresh"], [], True),
        (["model.gguf", "other.gguf"], ["model.gguf", "other.gguf"], False),
        (["--fresh", "a b.gguf"], ["a b.gguf"], True),
        (["a.gguf", "--fresh"], ["a.gguf"], True),
        (["./inspect"], ["./inspect"], False),
        (["--", "inspect"], ["inspect"], False),
        (["--", "--help", "-x"], ["--help", "-x"], False),
        (["ollama:demo:latest"], ["ollama:demo:latest"], False),
    ],
)
def test_paths_open_the_window(
    arguments: list[str], paths: list[str], fresh: bool, opened: list[tuple[list[str], bool]]
) -> None:
    assert main(arguments) == 0
    assert opened == [(paths, fresh)]


def test_a_mistyped_command_is_no_path(opened: list[object], capsys: Capture) -> None:
    assert main(["inspct", "model.gguf"]) == 2
    assert "Did you mean 'inspect'?" in capsys.readouterr().err
    assert opened == []


def test_a_file_without_a_suffix_is_a_path(
    opened: list[tuple[list[str], bool]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "model").write_bytes(b"")
    monkeypatch.chdir(tmp_path)
    assert main(["model"]) == 0
    assert opened == [(["model"], False)]


def test_without_qt_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setattr(window, "find_spec", lambda name: None)
    assert main([]) == 1
    error = capsys.readouterr().err
    assert "pip install 'gguf-explorer[gui]'" in error
    assert error.count("\n") == 1


@pytest.mark.skipif(sys.platform != "linux", reason="other systems always have a screen")
def test_without_a_screen_it_says_so(
    opened: list[object], monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM"):
        monkeypatch.delenv(name, raising=False)
    assert main(["model.gguf"]) == 1
    assert "no screen" in capsys.readouterr().err
    assert opened == []


@pytest.mark.parametrize(
    "arguments",
    [
        ["inspect"],
        ["inspect", ""],
        ["inspect", "a", "b"],
        ["inspect", "a", "--no-such"],
        ["--no-such"],
        ["--fresh", "check", "x"],
        ["completion", "tcsh"],
        ["check", "model.gguf", "--digests"],
        ["inspect", "x", "--\x1b[31m"],
    ],
)
def test_wrong_usage(arguments: list[str], capsys: Capture) -> None:
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "error: " in err
    assert "\x1b" not in err


def test_help_and_version(capsys: Capture) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"gguf-explorer {__version__}\n"
    assert main(["--help"]) == 0
    out = capsys.readouterr().out
    assert "gguf-explorer inspect model.gguf --json --metadata" in out
    for command in ("inspect", "check", "completion"):
        assert main([command, "--help"]) == 0


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(shell: str, capsys: Capture) -> None:
    assert main(["completion", shell]) == 0
    assert "_GGUF_EXPLORER_COMPLETE" in capsys.readouterr().out


def test_completion_offers_commands_and_files() -> None:
    environment = os.environ | {
        "_GGUF_EXPLORER_COMPLETE": "bash_complete",
        "COMP_WORDS": "gguf-explorer ch",
        "COMP_CWORD": "1",
    }
    command = [sys.executable, "-m", "explorer"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["file,ch", "plain,check"]


def test_an_interruption(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    def interrupted(path: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(inspect_command, "open_model", interrupted)
    assert main(["inspect", "x.gguf"]) == 130
    assert capsys.readouterr().out == ""


def test_never_a_traceback(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    def broken(path: str) -> None:
        raise RuntimeError("some\nthing \x1b[0m")

    monkeypatch.setattr(inspect_command, "open_model", broken)
    assert main(["inspect", "x.gguf"]) == 1
    error = capsys.readouterr().err
    assert error.startswith("error: this is a mistake of the program")
    assert error.count("\n") == 1
    assert "\x1b" not in error


@pytest.mark.skipif(sys.platform == "win32", reason="no /dev/full")
@pytest.mark.parametrize("unbuffered", ["", "1"])  # "": as Python is usually started
@pytest.mark.parametrize(
    ("arguments", "unread"), [(["inspect", "--tensors"], 0), (["--version"], 1)]
)  # the latter is click's own answer
def test_a_closed_pipe_and_a_full_disk(
    tmp_path: Path, arguments: list[str], unread: int, unbuffered: str
) -> None:
    model = [str(copy_demo(tmp_path))] * (len(arguments) > 1)
    command = [sys.executable, "-m", "explorer", *arguments, *model]
    env = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as pipe:
        done = subprocess.run(command, stdout=pipe, stderr=subprocess.PIPE, check=False, env=env)
    assert (done.returncode, done.stderr) == (unread, b"")
    if Path("/dev/full").exists():
        with open("/dev/full", "wb") as full:
            done = subprocess.run(
                command, stdout=full, stderr=subprocess.PIPE, check=False, env=env
            )
        assert done.returncode == 1
        assert done.stderr.startswith(b"error: standard output cannot be written")
        assert done.stderr.count(b"\n") == 1


@pytest.mark.parametrize("name", ["model.gguf", None])
def test_no_other_error_of_the_system_is_told_as_standard_output(
    name: str | None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object, **_named: object) -> None:
        raise OSError(5, "Input/output error", *[name] * (name is not None))

    monkeypatch.setattr(window, "open_window", fail)
    assert main([]) == 1
    place = "" if name is None else f"{name}: "
    assert capsys.readouterr().err == f"error: {place}input/output error\n"


def test_a_survey_ends_when_its_reader_goes_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from explorer.analysis.surveys import survey
    from explorer.cli import output
    from explorer.formats import open_model
    from explorer.present.tables.statistics import PRINTED

    monkeypatch.setattr(output, "write", lambda *_: False)
    with open_model(copy_demo(tmp_path)) as model:
        found = list(survey(model))
        assert list(output.print_rows(PRINTED, found, found, needed=False)) == []
        assert list(output.print_rows(PRINTED, found, found, needed=True)) == found


def test_version_and_errors_load_no_numpy_and_no_qt() -> None:
    code = (
        "import sys; from explorer.cli.main import main; assert main(['--version']) == 0;"
        "assert main(['--no-such']) == 2;"
        "loaded = {'numpy', 'PySide6', 'pyqtgraph'} & set(sys.modules); assert not loaded, loaded"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_units_change_text_and_not_json(tmp_path: Path, capsys: Capture) -> None:
    def printed(*arguments: str) -> str:
        assert main([*arguments]) == 0
        return capsys.readouterr().out

    path = str(copy_demo(tmp_path))
    assert "2.47 MiB" in printed("inspect", path)
    assert "2.59 MB" in printed("--units", "decimal", "inspect", path)
    assert "2.47 MiB" in printed("--units", "binary", "inspect", path)
    assert "2.47 MiB" in printed("inspect", path)  # nothing is left behind
    tight = ["plan", path, "--context", "4096", "--gpu", "1MiB", "--memory", "1GiB", "--json"]
    assert printed("--units", "decimal", *tight) == printed(*tight)


def test_units_are_no_option_of_the_window(capsys: Capture) -> None:
    assert main(["--units", "decimal", "a.gguf"]) == 2
    assert main(["--units", "decimal"]) == 2
    assert "View" in capsys.readouterr().err


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not bound address space so")
def test_too_little_address_space_is_said_as_such(tmp_path: Path) -> None:
    """A library that cannot be loaded for it is no mistake of the program."""
    code = (
        "import resource, sys\n"
        "resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[1]), int(sys.argv[1])))\n"
        "from explorer.cli.main import main\n"
        "sys.exit(main(sys.argv[2:]))"
    )
    model = str(copy_demo(tmp_path))
    for granted, command in (
        (60 << 20, ["check", model]),
        (260 << 20, ["stats", model, "output_norm.weight"]),
    ):
        done = subprocess.run(
            [sys.executable, "-c", code, str(granted), *command],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 1
        assert done.stderr.startswith("error: there is too little address space: ")
        assert "mistake" not in done.stderr
