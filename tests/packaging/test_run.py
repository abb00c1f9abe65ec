"""Tests of ``packaging/run.py``, without network, packages or a second Python."""

import importlib.util
import io
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "packaging" / "run.py"
ABSENT = {"libno-such-library.so.9": "libno-such-library9"}

needs_sh = pytest.mark.skipif(os.name != "posix", reason="a shell script stands in for Python")


@pytest.fixture(scope="module")
def run() -> ModuleType:
    """Import the script, which is not a part of any package."""
    spec = importlib.util.spec_from_file_location("packaging_run", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def checkout(run: ModuleType, tmp_path: Path) -> Path:
    """Make a checkout with a project file, a lock and an empty virtual environment."""
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'x'\n", encoding="utf-8")
    lock = tmp_path / run.LOCK / "program.txt"
    lock.parent.mkdir(parents=True)
    lock.write_text("x==1 --hash=sha256:0\n", encoding="utf-8")
    python = run.venv_python(tmp_path)
    python.parent.mkdir(parents=True)
    python.touch()
    return tmp_path


def stamp(run: ModuleType, root: Path, *extras: str) -> None:
    text = " ".join([run.fingerprint(root), *extras])
    (root / ".venv" / "installed").write_text(text, encoding="utf-8")


def shell_script(path: Path, body: str) -> Path:
    path.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
    path.chmod(0o755)
    return path


def fake_python(run: ModuleType, root: Path, install_status: int) -> Path:
    """Put an interpreter into the virtual environment; its pip writes arguments to a file."""
    answer = f"pip 1 from nowhere (python {run.PYTHON_VERSION})"
    log = root / "pip.log"
    body = f'[ "$3" = --version ] && echo "{answer}" && exit; echo "$@" >> "{log}"'
    shell_script(run.venv_python(root), f"{body}; exit {install_status}")
    return log


def script_of(root: Path) -> Path:
    """Copy the script into a checkout, so that it works there and not in ours."""
    copy = root / "packaging" / "run.py"
    copy.parent.mkdir(exist_ok=True)
    copy.write_bytes(SCRIPT.read_bytes())
    return copy


@pytest.mark.parametrize(
    ("arguments", "task", "rest"),
    [
        ([], "APP", []),
        (["model.gguf", "other"], "APP", ["model.gguf", "other"]),
        (["--version"], "APP", ["--version"]),
        (["tests"], "TESTS", []),
        (["tests", "-k", "name", "--", "x"], "TESTS", ["-k", "name", "--", "x"]),
        (["./tests"], "APP", ["./tests"]),
        (["model.gguf", "tests"], "APP", ["model.gguf", "tests"]),
        (["--", "--help"], "APP", ["--help"]),
        (["--", "tests"], "APP", ["tests"]),
        (["--", "--", "x"], "APP", ["--", "x"]),
    ],
)
def test_choose_splits_the_command_line(
    run: ModuleType, arguments: list[str], task: str, rest: list[str]
) -> None:
    assert run.choose(arguments) == (getattr(run, task), rest)


def test_the_window_needs_more_libraries_than_the_tests(run: ModuleType) -> None:
    assert set(run.TESTS.libraries) < set(run.APP.libraries)
    assert run.APP.libraries["libGL.so.1"] == "libgl1"
    assert run.APP.libraries["libxcb-cursor.so.0"] == "libxcb-cursor0"
    assert not any("xcb" in package for package in run.TESTS.libraries.values())


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere Qt's wheels need no libraries")
def test_only_absent_libraries_are_missing(run: ModuleType, checkout: Path) -> None:
    task = run.Task(lock="", extras=(), libraries={"libc.so.6": "libc6", **ABSENT}, command=())
    assert run.missing_from_system(task, checkout) == ABSENT


def test_what_is_missing_is_named_where_there_is_no_apt_get(
    run: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SystemExit, match=r"apt-get install .* libno-such-library9$"):
        run.install_packages(ABSENT)


@needs_sh
@pytest.mark.parametrize(
    ("answer", "runs"),
    [("n", False), ("", True), ("y", True), (None, False), ("no terminal", False)],
)
def test_packages_of_the_system_are_installed_once_the_user_agrees(
    run: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: str | None, runs: bool
) -> None:
    log = tmp_path / "log"
    for name in ("apt-get", "sudo"):
        program = tmp_path / name
        program.write_text(f'#!/bin/sh\necho "$0 $*" >> {log}\n')
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    terminal = io.StringIO(f"{answer}\n")
    monkeypatch.setattr(terminal, "isatty", lambda: answer != "no terminal")
    monkeypatch.setattr(sys, "stdin", None if answer is None else terminal)
    if runs:
        run.install_packages(ABSENT)
        assert "install -y --no-install-recommends libno-such-library9" in log.read_text()
    else:
        told = r"^run\.py: nothing was installed; run .*apt-get install .* libno-such-library9,"
        with pytest.raises(SystemExit, match=told):
            run.install_packages(ABSENT)
        assert not log.exists()
        run.install_packages(ABSENT, yes=True)
        assert log.exists()


def test_nothing_is_installed_in_a_new_checkout(run: ModuleType, tmp_path: Path) -> None:
    assert run.installed_extras(tmp_path) == set()


def test_tests_satisfy_the_app_but_not_the_reverse(run: ModuleType, checkout: Path) -> None:
    stamp(run, checkout, *run.TESTS.extras)
    assert run.installed_extras(checkout).issuperset(run.APP.extras)
    stamp(run, checkout, *run.APP.extras)
    assert not run.installed_extras(checkout).issuperset(run.TESTS.extras)


def test_a_changed_project_file_is_installed_again(run: ModuleType, checkout: Path) -> None:
    stamp(run, checkout, "gui")
    (checkout / "pyproject.toml").write_text("[project]\nname = 'y'\n", encoding="utf-8")
    assert run.installed_extras(checkout) == set()


def test_a_changed_lock_is_installed_again(run: ModuleType, checkout: Path) -> None:
    stamp(run, checkout, "gui")
    (checkout / run.LOCK / "program.txt").write_text("x==2 --hash=sha256:0\n", encoding="utf-8")
    assert run.installed_extras(checkout) == set()


def test_a_moved_checkout_is_installed_again(run: ModuleType, checkout: Path) -> None:
    root = checkout / "old"
    root.mkdir()
    for name in ("pyproject.toml", "packaging", ".venv"):
        (checkout / name).rename(root / name)
    stamp(run, root, "gui")
    assert run.installed_extras(root) == {"gui"}
    assert run.installed_extras(root.rename(checkout / "new")) == set()


def test_another_python_is_installed_again(
    run: ModuleType, checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stamp(run, checkout, "gui")
    monkeypatch.setattr(run, "PYTHON_VERSION", "3.99")
    assert run.installed_extras(checkout) == set()


@pytest.mark.parametrize("content", ["", "\n", "garbage gui"])
def test_a_damaged_stamp_counts_for_nothing(run: ModuleType, checkout: Path, content: str) -> None:
    (checkout / ".venv" / "installed").write_text(content, encoding="utf-8")
    assert run.installed_extras(checkout) == set()


def test_a_stamp_without_its_python_counts_for_nothing(run: ModuleType, checkout: Path) -> None:
    stamp(run, checkout, "gui")
    run.venv_python(checkout).unlink()
    assert run.installed_extras(checkout) == set()


def test_an_environment_without_a_working_python_is_made_anew(
    run: ModuleType, checkout: Path
) -> None:
    assert not run.has_pip(checkout)


@needs_sh
def test_a_failed_venv_is_said_and_removed(
    run: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Stands in for a Python whose venv module gives up half-way, as on a full disk.
    python = shell_script(tmp_path / "python", 'mkdir "$4" && echo half > "$4/made"; exit 1')
    monkeypatch.setattr(sys, "executable", str(python))
    with pytest.raises(SystemExit, match=r"^run\.py: Python could not make .*\.venv"):
        run.make_venv(tmp_path)
    assert not (tmp_path / ".venv").exists()


@needs_sh
def test_a_finished_installation_is_recorded(run: ModuleType, checkout: Path) -> None:
    fake_python(run, checkout, install_status=0)
    run.install_project(checkout, run.TESTS)
    assert run.installed_extras(checkout) == set(run.TESTS.extras)


@needs_sh
@pytest.mark.skipif(sys.platform != "linux", reason="the lock lists files for Linux")
def test_dependencies_come_from_the_lock_and_nothing_else(run: ModuleType, checkout: Path) -> None:
    log = fake_python(run, checkout, install_status=0)
    run.install_project(checkout, run.APP)
    locked, project = log.read_text(encoding="utf-8").splitlines()
    assert locked.endswith("install --require-hashes --requirement packaging/lock/program.txt")
    assert project.endswith("install --no-deps --no-build-isolation --editable .")


@needs_sh
def test_the_newest_versions_are_installed_each_time(run: ModuleType, checkout: Path) -> None:
    stamp(run, checkout, *run.TESTS.extras)
    log = fake_python(run, checkout, install_status=0)
    run.install_project(checkout, run.TESTS, newest=True)
    (command,) = log.read_text(encoding="utf-8").splitlines()
    assert command.endswith("--upgrade-strategy eager --editable .[gui,nvidia,remote,test]")
    assert run.installed_extras(checkout) == set()


@needs_sh
def test_newest_is_an_argument_before_all_others(run: ModuleType, checkout: Path) -> None:
    script = script_of(checkout)
    stamp(run, checkout, *run.TESTS.extras)
    log = fake_python(run, checkout, install_status=0)
    command = [sys.executable, str(script), "--newest", "tests", "-k", "name"]
    subprocess.run(command, capture_output=True, check=True)
    installed, started = log.read_text(encoding="utf-8").splitlines()
    assert "--upgrade" in installed
    assert started.startswith("-m pytest")
    assert started.endswith("-k name")


@needs_sh
def test_a_failed_installation_is_said_and_done_again(run: ModuleType, checkout: Path) -> None:
    stamp(run, checkout, "gui")
    log = fake_python(run, checkout, install_status=1)
    with pytest.raises(SystemExit, match=r"^run\.py: pip could not install"):
        run.install_project(checkout, run.TESTS)
    assert len(log.read_text(encoding="utf-8").splitlines()) == 1
    assert run.installed_extras(checkout) == set()


@pytest.mark.parametrize("version", [(3, 10, 9), (3, 15, 0)])
def test_another_python_is_refused(
    run: ModuleType, monkeypatch: pytest.MonkeyPatch, version: tuple[int, ...]
) -> None:
    monkeypatch.setattr(sys, "version_info", version)
    with pytest.raises(SystemExit, match=r"^run\.py: Python 3\.11 to 3\.14 is needed"):
        run.main([])


def test_help_names_every_command_and_installs_nothing(checkout: Path) -> None:
    script = script_of(checkout)
    answer = subprocess.run(
        [sys.executable, script, "--help"], capture_output=True, text=True, check=True
    )
    assert "packaging/run.py [PATH ...]" in answer.stdout
    assert "packaging/run.py tests" in answer.stdout
    assert "packaging/run.py --newest" in answer.stdout
    assert not (checkout / ".venv" / "installed").exists()


@needs_sh
def test_the_program_gets_its_arguments_and_its_status_comes_back(
    run: ModuleType, checkout: Path
) -> None:
    script = script_of(checkout)
    stamp(run, checkout, *run.TESTS.extras)
    shell_script(run.venv_python(checkout), 'pwd; printf "%s\\n" "$@"; exit 7')
    answer = subprocess.run(
        [sys.executable, script, "tests", "-k", "two words"],
        cwd=checkout.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 7
    assert answer.stdout.splitlines() == [
        str(checkout),
        "-m",
        "pytest",
        "-n",
        str((os.cpu_count() or 1) + 1),
        "--dist",
        "worksteal",
        "-k",
        "two words",
    ]
