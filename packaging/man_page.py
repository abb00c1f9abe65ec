"""Write the man page gguf-explorer.1 from the program's own arguments.

  .venv/bin/python packaging/man_page.py            write packaging/linux/gguf-explorer.1
  .venv/bin/python packaging/man_page.py --check    say whether that file is up to date

The page is kept in the repository, and a test holds it up to date: a package is then built without
importing the program. click-man makes one page per command; readers search one page.

The language is the part of man(7) that groff and mandoc agree on.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent, fill
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parent.parent
LINUX = ROOT / "packaging" / "linux"
PAGE = LINUX / "gguf-explorer.1"
METAINFO = LINUX / "io.github.gguf_explorer.GGUFExplorer.metainfo.xml"
sys.path.insert(0, str(ROOT))  # a script's own folder is there, not the checkout

import click  # noqa: E402 - after the path

from explorer import __version__  # noqa: E402
from explorer.cli.main import PROGRAM, program  # noqa: E402
from explorer.planner.environment import VARIABLES as OLLAMA_VARIABLES  # noqa: E402
from explorer.stores.entries import default_places  # noqa: E402

_VERBATIM = "\b"  # click's mark of a paragraph whose lines are kept
_EXAMPLES = "Examples:"
_WIDTH = 76

EXIT_CODES = {
    "0": "Done.",
    "1": "The input could not be used, or check has found something wrong.",
    "2": "Wrong usage.",
    "130": "Interrupted (Ctrl+C).",
    "129, 143": "Ended by SIGHUP or SIGTERM.",
}

ENVIRONMENT = {
    "GGUF_EXPLORER_CACHE": "Folder for compiled kernels and other things that can be made again.",
    "GGUF_EXPLORER_DEBUG": "If it is 1, the traceback of every error is printed to standard error.",
    "GGUF_EXPLORER_OFFLINE": "If it is 1, no address is read.",
    "GGUF_EXPLORER_REQUESTS": "How many requests may open one address; 200 if it is not set.",
    "XDG_CACHE_HOME, XDG_CONFIG_HOME": "Where caches and settings lie, if not in ~/.cache and "
    "~/.config.",
    "NUMBA_CACHE_DIR": "Another folder for compiled kernels alone.",
    "OLLAMA_MODELS": "Where Ollama keeps its models.",
    "HF_HUB_CACHE, HUGGINGFACE_HUB_CACHE, HF_HOME": "Where Hugging Face's tools keep theirs; the "
    "first that is set counts.",
    "LLAMA_CACHE": "Where llama.cpp keeps its downloads.",
    ", ".join(OLLAMA_VARIABLES): "Ollama's settings, which plan follows where an option is left "
    "out.",
    "CUDA_VISIBLE_DEVICES, ROCR_VISIBLE_DEVICES, HIP_VISIBLE_DEVICES, GGML_VK_VISIBLE_DEVICES": (
        "Which GPUs programs may see; the others are not counted."
    ),
    "DISPLAY, WAYLAND_DISPLAY, QT_QPA_PLATFORM": "Where the window appears. Without any of them "
    "only the commands work.",
    "NO_COLOR": "If it is set, and not empty, text is printed without colours.",
}

FILES = {
    "~/.config/gguf-explorer/gguf-explorer.ini": "Settings of the window.",
    "~/.cache/gguf-explorer/": "Compiled kernels, earlier results. It may be deleted.",
}


def escape(text: str) -> str:
    """Return text as roff that prints it, whatever it holds; lines stay lines.

    A backslash begins an escape, a full stop or an apostrophe at the start of a line a request, and
    a bare hyphen may be printed as a Unicode hyphen, which cannot be pasted into a shell.
    """
    special = {"\\": r"\e", "-": r"\-", "'": r"\(aq", "`": r"\(ga", "^": r"\(ha", "~": r"\(ti"}
    special["|"] = r"|\:"  # a line may end between choices
    out = []
    for line in text.splitlines() or [""]:
        letters = [
            special.get(letter, letter) if letter.isascii() else f"\\[u{ord(letter):04X}]"
            for letter in line
        ]
        joined = "".join(letters)
        out.append(rf"\&{joined}" if joined.startswith(".") else joined)
    return "\n".join(out)


def bold(text: str) -> str:
    """Return text in bold: what is typed as it stands."""
    return rf"\fB{escape(text)}\fR"


def italic(text: str) -> str:
    """Return text in italics: what stands for something else."""
    return rf"\fI{escape(text)}\fR"


def heading(text: str, level: str = "SH") -> str:
    """Return the line that begins a section (``SH``) or a part of one (``SS``)."""
    return f'.{level} "{escape(text)}"'


def entry(term: str, text: str) -> list[str]:
    """Return a term, which is roff already, with its explanation indented below it."""
    return [".TP", term, filled(text) or r"\&"]


def filled(text: str) -> str:
    """Return a paragraph, in lines that a person can read and compare."""
    return escape(fill(text, _WIDTH, break_long_words=False, break_on_hyphens=False))


def metavar(parameter: click.Parameter) -> str:
    """Return what stands for a parameter's value; empty for a switch."""
    if parameter.metavar:
        return parameter.metavar
    if isinstance(parameter, click.Option) and (parameter.is_flag or parameter.count):
        return ""
    if isinstance(parameter.type, click.Choice):
        return "|".join(map(str, parameter.type.choices))
    if isinstance(parameter, click.Argument):
        return (parameter.name or "").upper()
    return "N" if isinstance(parameter.type, click.IntRange) else parameter.type.name.upper()


def range_text(parameter: click.Parameter) -> str:
    """Return in words which numbers a parameter takes; empty if all."""
    kind = parameter.type
    if not isinstance(kind, click.IntRange):
        return ""
    if kind.max is None:
        return f"At least {kind.min}." if kind.min is not None else ""
    return f"From {kind.min} to {kind.max}."


def explanation(option: click.Option) -> str:
    """Return an option's help, with its default and limits."""
    parts = [option.help or "", range_text(option)]
    if isinstance(option.show_default, str):
        parts.append(f"Default: {option.show_default}.")
    elif option.show_default:
        parts.append(f"Default: {option.default}.")
    if option.required:
        parts.append("It must be given.")
    return " ".join(filter(None, parts))


def option_lines(options: list[click.Parameter]) -> Iterator[str]:
    """Yield options, each with its explanation."""
    for option in options:
        if not isinstance(option, click.Option) or option.hidden:
            continue
        names = ", ".join(map(bold, [*option.opts, *option.secondary_opts]))
        value = metavar(option)
        yield from entry(f"{names} {italic(value)}" if value else names, explanation(option))


def synopsis(command: click.Command, name: str) -> str:
    """Return one line that shows how a command is called."""
    pieces = [bold(f"{PROGRAM} {name}".strip())]
    if any(isinstance(parameter, click.Option) for parameter in command.params):
        pieces.append(rf"[{italic('OPTION')}]...")
    for argument in command.params:
        if isinstance(argument, click.Argument):
            many = argument.nargs == -1 and not metavar(argument).endswith("...")
            text = italic(metavar(argument)) + ("..." if many else "")
            pieces.append(text if argument.required else f"[{text}]")
    return " ".join(pieces)


def prose(text: str) -> Iterator[str]:
    """Yield click's help: paragraphs, and lists of lines that are kept as they are."""
    for number, paragraph in enumerate(re.split(r"\n\s*\n", inspect.cleandoc(text))):
        if number:
            yield ".PP"
        if not paragraph.startswith(_VERBATIM):
            yield filled(paragraph)
            continue
        first, *lines = paragraph.lstrip(_VERBATIM).strip("\n").splitlines()
        yield escape(first)
        yield ".PP"
        yield from verbatim(lines)


def verbatim(lines: list[str]) -> Iterator[str]:
    """Yield lines that are to be printed one below the other, without their indentation."""
    yield from (".RS 4", ".nf")
    yield escape(dedent("\n".join(lines)))
    yield from (".fi", ".RE")


def command_lines(context: click.Context) -> Iterator[str]:
    """Yield the part on each command."""
    yield heading("COMMANDS")
    for name in program.list_commands(context):
        command = program.get_command(context, name)
        if command is None or command.hidden:
            continue
        yield heading(name, "SS")
        yield synopsis(command, name)
        yield ".PP"
        yield from prose(command.help or "")
        yield from option_lines(command.params)  # without --help, which each has


def examples(text: str) -> Iterator[str]:
    """Yield the examples of the program's epilogue."""
    for paragraph in inspect.cleandoc(text).split(_VERBATIM):
        first, *lines = paragraph.strip("\n").splitlines() or [""]
        if first == _EXAMPLES:
            yield heading("EXAMPLES")
            yield from verbatim(lines)


def release_date() -> str:
    """Return the date of this version, as the AppStream file has it.

    The page must not depend on the day on which it was made.
    """
    for release in ElementTree.parse(METAINFO).iter("release"):
        if release.get("version") == __version__:
            return release.get("date", "")
    sys.exit(f"man_page.py: {METAINFO.name} has no release {__version__}; add one")


def page() -> str:
    """Return the whole page."""
    context = click.Context(program, info_name=PROGRAM, **program.context_settings)
    stores = ", ".join(str(place.root) for place in default_places({}, Path("~"), "linux"))
    lines = [
        ".\\\" Made by packaging/man_page.py from the program's arguments: do not edit.",
        f'.TH GGUF\\-EXPLORER 1 "{release_date()}" "GGUF Explorer {__version__}" "User Commands"',
        ".nh",  # a name that is divided at the end of a line is not that name
        ".ad l",
        heading("NAME"),
        escape(f"{PROGRAM} - see what is inside downloaded language models"),
        heading("SYNOPSIS"),
        f"{bold(PROGRAM)} [{bold('--fresh')}] [{italic('PATH')}]...",
        ".br",
        f"{bold(PROGRAM)} [{bold('--units')} {italic('UNITS')}] {italic('COMMAND')} "
        f"[{italic('ARGUMENT')}]...",
        heading("DESCRIPTION"),
        *prose(program.help or ""),
        ".PP",
        filled(
            "Models are only read, and nothing is sent anywhere. A file whose name is that of a "
            f"command is opened by {PROGRAM} ./NAME."
        ),
        heading("OPTIONS"),
        *option_lines(program.get_params(context)),
        *command_lines(context),
        heading("EXIT STATUS"),
    ]
    for term, text in EXIT_CODES.items():
        lines += entry(bold(term), text)
    lines.append(heading("ENVIRONMENT"))
    for term, text in ENVIRONMENT.items():
        lines += entry(bold(term), text)
    lines.append(heading("FILES"))
    for term, text in {**FILES, stores: "Where downloaded models are looked for."}.items():
        lines += entry(italic(term), text)
    lines += examples(program.epilog or "")
    return "\n".join(lines) + "\n"


def main(arguments: list[str]) -> int:
    """Write the page, or compare it with the one that is there; return the exit status."""
    text = page()
    if arguments == ["--check"]:
        if PAGE.exists() and PAGE.read_text(encoding="utf-8") == text:
            return 0
        print(f"{PAGE} is out of date: run packaging/man_page.py", file=sys.stderr)
        return 1
    if arguments:
        print(__doc__, file=sys.stderr)
        return 2
    PAGE.write_text(text, encoding="utf-8")
    print(PAGE)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
