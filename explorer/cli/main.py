"""The entry: `gguf-explorer [PATH …]` opens the window, `gguf-explorer COMMAND …` runs a command.

Commands return their exit code. Their modules are imported when they run, so that `--version` and
shell completion load no NumPy.
"""

from __future__ import annotations

import errno
import gc
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from traceback import walk_tb
from typing import Any, Final

import click
from click.shell_completion import CompletionItem, get_completion_class

from explorer import __version__
from explorer.cli.options import offline_option, units_option
from explorer.cli.output import output_error, write, write_error, write_warning
from explorer.ends import exit_code
from explorer.errors import ExplorerError, system_reason, trace
from explorer.text import ByteUnits, Notation, bytes_text, writing

PROGRAM: Final = "gguf-explorer"
EXIT_UNUSABLE: Final = 1
EXIT_USAGE: Final = 2
EXIT_INTERRUPTED: Final = exit_code(signal.SIGINT)

_ONLY_PATHS: Final = "explorer.only_paths"

COMMANDS: Final = {
    "inspect": ("inspect:inspect_command", "Show what a model is."),
    "stats": ("weights:stats_command", "Show the statistics of a tensor."),
    "survey": ("weights:survey_command", "Show the statistics of every tensor of a model."),
    "compare": ("errors:compare_command", "Show the errors of a model against another."),
    "diff": ("errors:diff_command", "Show what two models differ in."),
    "requantize": ("errors:requantize_command", "Show a tensor's size and errors in other types."),
    "recipes": ("recipes:recipes_command", "Show what llama-quantize would make of a model."),
    "export": ("weights:export_command", "Write the weights of a tensor to a file."),
    "report": ("report:report_command", "Write what is known of a model to an HTML file."),
    "check": ("library:check_command", "Check that a model or a store is whole."),
    "library": ("library:library_command", "List the downloaded models."),
    "plan": ("plan:plan_command", "Show the memory that models need, and what fits."),
    "completion": ("main:completion_command", "Print the completion script of a shell."),
}
"""Commands for people by name, in the order of `--help`: where each is in `explorer.cli`, and what
it does. `--help` reads these lines: to import all commands takes half a second."""

_OBJECTS_BETWEEN: Final = 50_000  # headers are made of objects that stay, with few cycles


class _Program(click.Group):
    """Commands by name; anything else is a list of paths for the window."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, _, function = COMMANDS[cmd_name][0].partition(":")
        command: click.Command = getattr(import_module(f"explorer.cli.{module}"), function)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, does) for name, (_, does) in COMMANDS.items()])

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        before = args[: args.index("--")] if "--" in args else [""]
        ctx.meta[_ONLY_PATHS] = all(argument.startswith("-") for argument in before)
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if ctx.meta.get(_ONLY_PATHS):
            return _open.name, _open, ["--", *args]
        command = self.get_command(ctx, args[0])
        if command is None:
            return _open.name, _open, args
        return args[0], command, args[1:]

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        # Files first: bash's script clears its list there, and lists them if nothing else matches.
        items = [CompletionItem(incomplete, type="file")]
        items += [CompletionItem(name) for name in COMMANDS if name.startswith(incomplete)]
        return items + click.Command.shell_complete(self, ctx, incomplete)


_fresh_option = click.option(
    "--fresh", is_flag=True, help="Open the window without the saved settings."
)


@click.group(
    cls=_Program,
    invoke_without_command=True,
    subcommand_metavar="[PATH]... | COMMAND [ARGUMENT]...",
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="""\b
Examples:
  gguf-explorer                              open the library
  gguf-explorer model.gguf                   open the window on a model
  gguf-explorer inspect model.gguf           print what the model is
  gguf-explorer inspect model.gguf --json --metadata
  gguf-explorer stats model.gguf output.weight
  gguf-explorer report model.gguf -o model.html
  gguf-explorer check model.gguf             exit code 0 if nothing is wrong
  gguf-explorer library                      list the models that were downloaded
  gguf-explorer plan model.gguf --gpu 24GiB  show which layers fit on the GPU
  gguf-explorer completion bash > ~/.local/share/bash-completion/completions/gguf-explorer
\b
A file whose name is that of a command: gguf-explorer ./inspect
Exit codes: 0 done, 1 the input could not be used, 2 wrong usage, 130 interrupted.
GGUF_EXPLORER_DEBUG=1 prints the traceback of every error.
""",
)
@_fresh_option
@units_option
@offline_option
@click.version_option(__version__, prog_name=PROGRAM, message="%(prog)s %(version)s")
@click.pass_context
def program(context: click.Context, fresh: bool, units: str | None) -> int:
    """See what is inside downloaded language models.

    With paths, or without anything, it opens the window. With a command it prints.
    """
    context.obj = fresh
    if units is not None:
        if context.invoked_subcommand in (None, _open.name):
            raise click.UsageError("--units belongs to a command. The window has it in View")
        context.with_resource(writing(Notation(units=ByteUnits(units))))
    if context.invoked_subcommand is None:
        return open_window([], fresh=fresh)
    if fresh and context.invoked_subcommand != _open.name:
        raise click.UsageError("--fresh belongs to the window, not to a command")
    if context.invoked_subcommand not in (_open.name, completion_command.name):
        context.with_resource(_watched())
    return 0


@contextmanager
def _watched() -> Iterator[None]:
    """Tell of a crash of the last run, and of what is logged; leave a trace if this one crashes.

    Kernels of a run that died in machine code are gone before this one can use them.
    """
    import faulthandler  # noqa: PLC0415 - `--version` needs none of these
    import logging  # noqa: PLC0415

    from explorer.crash_reports import CrashReports  # noqa: PLC0415
    from explorer.private_folder import PrivateFolder  # noqa: PLC0415

    class Warnings(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            write_warning(record.getMessage())

    log, warnings = logging.getLogger("explorer"), Warnings(logging.WARNING)
    log.addHandler(warnings)
    PrivateFolder().remove_leftovers()
    reports = CrashReports()
    crash = reports.take_crash()
    if crash is not None:
        _, path = crash
        where = "" if path is None else f". The report is {path}"
        write_warning(f"the program crashed the last time{where}")
    if not faulthandler.is_enabled():  # else Python was asked to print crashes
        reports.watch()
    thresholds = gc.get_threshold()
    gc.set_threshold(_OBJECTS_BETWEEN, *thresholds[1:])
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
        reports.stop_watching()
        log.removeHandler(warnings)


@click.command("[PATH]...", hidden=True)
@click.argument("paths", nargs=-1, type=click.Path())
@_fresh_option
@click.pass_context
def _open(context: click.Context, paths: tuple[str, ...], fresh: bool) -> int:
    if not context.meta.get(_ONLY_PATHS):
        _refuse_mistyped(paths[0] if paths else "")
    return open_window(paths, fresh=fresh or bool(context.obj))


def _refuse_mistyped(word: str) -> None:
    """Refuse a bare word that is neither a command nor a file: the window would find nothing."""
    if not word.replace("-", "").replace("_", "").isalnum() or Path(word).exists():
        return
    similar = get_close_matches(word, COMMANDS, n=1)
    hint = f". Did you mean {similar[0]!r}?" if similar else ""
    raise click.UsageError(f"there is no command and no file named {word!r}{hint}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program, by `sys.argv` if no other arguments are given; return its exit code.

    Errors are one line on standard error.
    """
    given = sys.argv[1:] if arguments is None else arguments
    code: Any
    try:
        with _traced():
            code = program.main(given, prog_name=PROGRAM, standalone_mode=False)
    except click.UsageError as error:
        code = _explain_usage(error)
    except click.ClickException as error:
        code = _fail(error.format_message())
    except (click.Abort, KeyboardInterrupt):
        code = EXIT_INTERRUPTED
    except ExplorerError as error:
        code = _fail(str(error))
    except OSError as error:
        code = _fail(_system_fault(error))
    except MemoryError:
        code = _fail(_limit() or "there is not enough memory. Close other programs and try again")
    except SystemExit as stop:  # click's completion, and its answer to a closed pipe
        code = stop.code
    except Exception as error:  # noqa: BLE001 - the promise is: never a traceback
        loads = isinstance(error, ImportError)
        code = _fail((_limit() if loads else "") or _own_fault(error))
    return code if isinstance(code, int) else 0


@contextmanager
def _traced() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        trace(error)
        raise


def _own_fault(error: Exception) -> str:
    """Return what to say of a mistake of the program, and leave a report as the window does."""
    from explorer.crash_reports import CrashReports, error_report  # noqa: PLC0415 - rarely needed

    path = CrashReports().write(error_report(error))
    where = "" if path is None else f". The details are in {path}"
    what = f"{type(error).__name__}: {error}"
    return f"this is a mistake of the program, please report it: {what}{where}"


def _system_fault(error: OSError) -> str:
    """Return what to say of an error of the system that no part of the program explained."""
    frames = [frame for frame, _ in walk_tb(error.__traceback__)]
    if any(frame.f_code is click.echo.__code__ for frame in frames):  # it prints `--help`
        return str(output_error(error))
    if error.errno in (None, errno.ENOMEM) and _limit():  # without a number: of a library's loader
        return _limit()
    place = "" if error.filename is None else f"{error.filename}: "
    return f"{place}{system_reason(error)}"


def _limit() -> str:
    """Return what to say where memory is lacking because the process may use little; else ""."""
    if sys.platform == "win32":
        return ""
    import resource  # noqa: PLC0415 - rarely needed

    granted = resource.getrlimit(resource.RLIMIT_AS)[0]
    if granted == resource.RLIM_INFINITY:
        return ""
    space = bytes_text(granted)
    return f"there is too little address space: {space} are granted; raise the limit (ulimit -v)"


def _fail(message: str) -> int:
    write_error(message)
    return EXIT_UNUSABLE


def _explain_usage(error: click.UsageError) -> int:
    if error.ctx is not None and sys.stderr is not None:
        context = error.ctx.parent if error.ctx.command is _open else error.ctx
        if context is not None:
            sys.stderr.write(f"{context.get_usage()}\nTry '{context.command_path} --help'.\n")
    write_error(error.format_message())
    return EXIT_USAGE


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion_command(context: click.Context, shell: str) -> int:
    """Print the completion script for SHELL.

    \b
    Put it where the shell looks:
      gguf-explorer completion bash > ~/.local/share/bash-completion/completions/gguf-explorer
      gguf-explorer completion zsh > "${fpath[1]}/_gguf-explorer"
      gguf-explorer completion fish > ~/.config/fish/completions/gguf-explorer.fish
    """
    kind = get_completion_class(shell)
    assert kind is not None  # click has the three that the argument allows
    # click makes the variable's name from the program's
    script = kind(context.find_root().command, {}, PROGRAM, "_GGUF_EXPLORER_COMPLETE")
    write(script.source_template % script.source_vars() + "\n")
    return 0


_DISPLAY_VARIABLES = ("DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM")
_INSTALL = "Install it with: pip install 'gguf-explorer[gui]'"


class WindowError(ExplorerError):
    """The window cannot be opened on this machine as it is."""


def open_window(paths: Sequence[str], *, fresh: bool) -> int:
    """Open the window on models, or on the library, and return its exit code.

    Raises:
        WindowError: The Qt packages are missing or broken, or there is no screen.
    """
    missing = [name for name in ("PySide6", "pyqtgraph") if find_spec(name) is None]
    if missing:
        raise WindowError(
            f"the window needs {' and '.join(missing)}, which is not installed. {_INSTALL} "
            "(the commands work without it: see --help)"
        )
    if sys.platform.startswith("linux") and not any(map(os.environ.get, _DISPLAY_VARIABLES)):
        raise WindowError(
            "there is no screen to open the window on (DISPLAY and WAYLAND_DISPLAY are not set). "
            "Start it in a desktop session, or use a command: gguf-explorer inspect PATH"
        )
    gc.disable()  # modules make objects that stay: to look at them took 25 ms of the first paint
    try:
        from explorer.qt.app import run  # noqa: PLC0415 - Qt takes 300 ms, which no command needs
    except ImportError as error:
        if (error.name or "").startswith("explorer"):
            raise
        raise WindowError(f"Qt cannot be loaded: {error}. {_INSTALL}") from error
    finally:
        gc.enable()
    return run(list(paths), fresh)
