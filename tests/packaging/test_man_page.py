"""The man page: complete, up to date, and free of warnings."""

from __future__ import annotations

import inspect
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import click
import pytest

from explorer.cli.main import EXIT_INTERRUPTED, EXIT_UNUSABLE, EXIT_USAGE, program
from explorer.hardware import detect as visible
from explorer.paths import CACHE_VARIABLE
from explorer.planner.environment import VARIABLES
from explorer.stores.entries import default_places

PAGE = Path(__file__).resolve().parents[2] / "packaging" / "linux" / "gguf-explorer.1"


@pytest.fixture
def man(script: Callable[[str], ModuleType]) -> ModuleType:
    return script("man_page")


def plain(roff: str) -> str:
    """Return the page without fonts, and with its escapes read."""
    for sequence, text in (
        ("\\fB", ""), ("\\fI", ""), ("\\fR", ""), ("\\&", ""), ("\\-", "-"), ("\\(aq", "'"),
        ("\\(ti", "~"), ("\\(ha", "^"), ("\\(ga", "`"), ("\\[u2026]", "…"), ("\\e", "\\"),
    ):  # fmt: skip
        roff = roff.replace(sequence, text)
    return roff


def commands() -> list[click.Command]:
    context = click.Context(program)
    found = [program.get_command(context, name) for name in program.list_commands(context)]
    return [command for command in found if command is not None]


def test_the_page_is_up_to_date(man: ModuleType) -> None:
    assert PAGE.read_text(encoding="utf-8") == man.page(), "run packaging/man_page.py"


def test_every_command_and_every_option_is_there() -> None:
    text = plain(PAGE.read_text(encoding="utf-8"))
    parts = {part.split('"')[0]: part for part in text.split('\n.SS "')[1:]}
    assert len(commands()) >= 10
    for command in commands():
        assert command.name in parts
        part = parts[command.name].split("\n.SH ")[0]
        words = " ".join(inspect.cleandoc(command.help or "").split("\n\n")[0].split())
        assert words in " ".join(part.split())
        for parameter in command.params:
            names = [*parameter.opts, *parameter.secondary_opts]
            if isinstance(parameter, click.Argument):
                names = [parameter.metavar] if parameter.metavar else []
            assert all(name in part for name in names), (command.name, names)
            if isinstance(parameter, click.Option) and parameter.help:
                assert " ".join(parameter.help.split()) in " ".join(part.split())
    for option in program.params:
        assert all(name in text for name in option.opts)


def test_exit_codes_variables_and_folders_are_there() -> None:
    text = plain(PAGE.read_text(encoding="utf-8"))
    status = text.split('.SH "EXIT STATUS"')[1].split(".SH")[0]
    for code in (0, EXIT_UNUSABLE, EXIT_USAGE, EXIT_INTERRUPTED):
        assert f".TP\n{code}\n" in status
    joined = " ".join(text.split())
    others = [name for names in visible._VARIABLES.values() for name in names]
    for name in (CACHE_VARIABLE, *VARIABLES, *others):
        assert name in joined
    for place in default_places({}, Path("~"), "linux"):
        assert str(place.root) in joined


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        (".SH NAME", r"\&.SH NAME"),
        ("'br", r"\(aqbr"),
        (r"a\b", r"a\eb"),
        ("--json", r"\-\-json"),
        ("~/x ^ `y`", r"\(ti/x \(ha \(gay\(ga"),
        ("KEY…", r"KEY\[u2026]"),
        ("one\n.two", "one\n\\&.two"),
        ("", ""),
    ],
)
def test_escape_makes_text_of_everything(man: ModuleType, text: str, printed: str) -> None:
    assert man.escape(text) == printed


@pytest.mark.parametrize(
    "command",
    [
        ("groff", "-man", "-ww", "-z", "-Tutf8"),
        ("mandoc", "-T", "lint", "-W", "warning"),
        ("man", "--warnings", "--local-file"),
    ],
    ids=lambda command: command[0],
)
def test_the_page_is_formatted_without_a_warning(command: tuple[str, ...]) -> None:
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    done = subprocess.run([*command, str(PAGE)], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert not done.stderr
    if command[0] == "mandoc":
        assert not done.stdout
    if command[0] == "man":
        assert "--kv-cache-type" in done.stdout
