"""What the program's own source never does: each rule is one walk over every module."""

from __future__ import annotations

import ast
import gc
from collections import defaultdict
from collections.abc import Callable, Container, Iterator, Sequence
from functools import cache
from pathlib import Path

import pytest

import explorer

_PACKAGE = Path(explorer.__file__).parent

_NETWORK = frozenset(
    {
        *("socket", "socketserver", "ssl", "http", "urllib", "ftplib", "smtplib", "poplib"),
        *("imaplib", "telnetlib", "urllib3", "xmlrpc", "asyncio", "requests", "httpx", "aiohttp"),
        *("webbrowser", "PySide6.QtNetwork", "PySide6.QtWebSockets", "PySide6.QtWebEngineCore"),
        *("PySide6.QtWebEngineWidgets", "PySide6.QtRemoteObjects", "PySide6.QtDBus"),
    }
)
# What reads addresses; `sources/remote/addresses.py` only takes their text apart.
_REMOTE = frozenset(f"sources/remote/{name}.py" for name in ("http", "hub", "source"))
_TEXT_ONLY = "urllib.parse"
_UNSAFE_READERS = frozenset({"marshal", "shelve", "dill", "cloudpickle", "joblib", "yaml", "mako"})
_TEMPLATES = frozenset({"jinja2", "markupsafe"})
_CALLS_THAT_RUN_TEXT = frozenset({"eval", "exec", "compile", "__import__"})
_RICH_TEXT = frozenset(
    {
        *("RichText", "MarkdownText", "AutoText", "setHtml", "insertHtml", "appendHtml"),
        *("setMarkdown", "toHtml", "setStyleSheet", "setDefaultStyleSheet", "setSource"),
    }
)
# Modules that may show rich text or set a style sheet, and which.
_RICH_TEXT_OF_OUR_OWN = {
    "qt/help/guide.py": "pages of resources/guide and lists of keys",
    "qt/theme.py": "the sheet of all controls: a literal, with colours of the module and two icons",
}
# Modules that may start a program, and what they start it with.
_STARTERS = {
    "hardware/detect.py": "a program of macOS, with constant arguments",
    "hardware/own_build.py": "the user's llama.cpp, when asked for, with arguments of a plan",
    "qt/library/commands.py": "the file manager, with one path as one argument",
}


@pytest.fixture(autouse=True, scope="module")
def nothing_kept() -> Iterator[None]:
    """Let what was parsed go: a million objects that the collector walks over in later tests."""
    yield
    _nodes.cache_clear()
    _modules.cache_clear()


@cache
def _modules() -> dict[str, ast.Module]:
    return {
        path.relative_to(_PACKAGE).as_posix(): ast.parse(path.read_text(encoding="utf-8"))
        for path in sorted(_PACKAGE.rglob("*.py"))
    }


@cache
def _nodes() -> dict[type[ast.AST], list[tuple[str, ast.AST]]]:
    """Return every node of the program by its kind, with its module: walked over once."""
    found: dict[type[ast.AST], list[tuple[str, ast.AST]]] = defaultdict(list)
    gc.disable()  # half a million objects, none of them garbage: looking for it takes half the time
    try:
        for name, tree in _modules().items():
            for node in ast.walk(tree):
                found[type(node)].append((name, node))
    finally:
        gc.enable()
    return found


def _found(
    kinds: Sequence[type[ast.AST]], rule: Callable[[ast.AST], bool], allowed: Container[str] = ()
) -> list[str]:
    """Return the places where a rule finds something, in modules that are not allowed to."""
    return [
        f"{name}:{getattr(node, 'lineno', 0)}: {ast.unparse(node)[:100]}"
        for kind in kinds
        for name, node in _nodes()[kind]
        if name not in allowed and rule(node)
    ]


_IMPORTS = (ast.Import, ast.ImportFrom, ast.Attribute)  # `QtCore.QProcess` imports it, in effect


def _imports(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
        yield node.module
        yield from (f"{node.module}.{alias.name}" for alias in node.names)
    elif isinstance(node, ast.Attribute):
        module = ast.unparse(node.value)
        if module in {"QtCore", "QtGui", "QtWidgets"}:
            yield f"PySide6.{module}.{node.attr}"


def _imports_one_of(names: frozenset[str]) -> Callable[[ast.AST], bool]:
    def rule(node: ast.AST) -> bool:
        found = (name for name in _imports(node) if not name.startswith(_TEXT_ONLY))
        return any(name in names or name.split(".")[0] in names for name in found)

    return rule


def _called(node: ast.AST) -> str:
    """Return the last part of the name of what is called; empty for anything else."""
    if not isinstance(node, ast.Call):
        return ""
    function = node.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def test_nothing_that_could_reach_a_network_is_imported() -> None:
    """But by what reads addresses, and that is imported when the user gives one."""
    assert _found(_IMPORTS, _imports_one_of(_NETWORK), allowed=_REMOTE) == []
    imports_remote = _imports_one_of(frozenset(map(_module_name, _REMOTE)))
    top_level = [
        name
        for name, tree in _modules().items()
        if name not in _REMOTE
        for node in tree.body
        if isinstance(node, ast.Import | ast.ImportFrom) and imports_remote(node)
    ]
    assert top_level == []


def _module_name(path: str) -> str:
    return "explorer." + path.removesuffix(".py").replace("/", ".")


def test_no_text_is_run() -> None:
    def runs(node: ast.AST) -> bool:
        return (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in _CALLS_THAT_RUN_TEXT
        )

    assert _found([ast.Call], runs) == []


def test_nothing_is_unpickled() -> None:
    """Files of models hold bytes only; what Numba keeps is checked by its digest before."""
    assert _found(_IMPORTS, _imports_one_of(_UNSAFE_READERS)) == []
    reads = {"pickle.load", "pickle.loads", "pickle.Unpickler"}
    found = _found(
        [ast.Call],
        lambda node: ast.unparse(node.func) in reads,  # type: ignore[attr-defined]
        allowed={"quantization/jit.py"},
    )
    assert found == []

    def may_unpickle(node: ast.AST) -> bool:
        if not (isinstance(node, ast.Call) and ast.unparse(node.func) in {"np.load", "np.memmap"}):
            return False
        return not any(
            word.arg == "allow_pickle"
            and isinstance(word.value, ast.Constant)
            and word.value.value is False
            for word in node.keywords
        )

    assert _found([ast.Call], may_unpickle) == []


def test_programs_are_started_in_three_places_and_never_by_a_shell() -> None:
    programs = frozenset({"subprocess", "multiprocessing", "pty", "PySide6.QtCore.QProcess"})
    assert _found(_IMPORTS, _imports_one_of(programs), allowed=_STARTERS) == []
    starts = _imports_one_of(frozenset({"subprocess", "PySide6.QtCore.QProcess"}))
    named = {name for kind in _IMPORTS for name, node in _nodes()[kind] if starts(node)}
    assert named == set(_STARTERS)
    calls = {"system", "popen", "spawnl", "spawnv", "execv", "execvp", "startfile", "getoutput"}
    assert (
        _found([ast.Call], lambda n: _called(n) in calls and ast.unparse(n).startswith("os.")) == []
    )
    assert _found([ast.keyword], lambda n: getattr(n, "arg", None) == "shell") == []
    assert _found([ast.Call], lambda n: _called(n) == "startCommand") == []


def test_only_the_file_manager_is_opened_and_only_on_folders() -> None:
    opens = _imports_one_of(frozenset({"PySide6.QtGui.QDesktopServices"}))
    assert _found(_IMPORTS, opens, allowed={"qt/library/commands.py"}) == []
    (call,) = _found([ast.Call], lambda node: _called(node) == "openUrl")
    assert call.endswith("openUrl(QUrl.fromLocalFile(str(folder)))")


def test_no_rich_text_and_no_style_sheets() -> None:
    def uses(node: ast.AST) -> bool:
        return isinstance(node, ast.Attribute) and node.attr in _RICH_TEXT

    assert _found([ast.Attribute], uses, allowed=_RICH_TEXT_OF_OUR_OWN) == []
    assert {name for name, node in _nodes()[ast.Attribute] if uses(node)} == set(
        _RICH_TEXT_OF_OUR_OWN
    )


def test_templates_are_the_program_s_own() -> None:
    """What is in braces or behind per cent signs in a model's text must never be filled in.

    A template is a literal. A name stands for a template if all that is
    assigned to it is one; what a caller passes is looked at where it is called (see `_PASSED`).
    """
    strangers = {
        f"{name}:{node.name}"
        for name, node in _nodes()[ast.FunctionDef]
        if isinstance(node, ast.FunctionDef) and _formats_a_stranger(node)
    }
    assert strangers == set(_PASSED)

    def formats_by_percent(node: ast.AST) -> bool:
        return (
            isinstance(node, ast.BinOp)
            and isinstance(node.op, ast.Mod)
            and isinstance(node.left, (ast.Constant, ast.JoinedStr, ast.Call))
            and not _is_number(node.left)
            and not (isinstance(node.left, ast.Call) and _called(node.left) != "str")
        )

    assert _found([ast.BinOp], formats_by_percent) == []
    others = _imports_one_of(frozenset({"string.Template", "string.Formatter"}))
    assert _found(_IMPORTS, others) == []
    assert _found([ast.Call], lambda node: _called(node) in {"format_map", "vformat"}) == []


# Functions that are given a template, each looked at by eye: what is passed is the program's own.
_PASSED = {"qt/theme.py:_controls": "the sheet of all controls, a literal of its module"}


def test_jinja_renders_the_program_s_own_template_only() -> None:
    page = "report/privacy.py"
    assert _found(_IMPORTS, _imports_one_of(_TEMPLATES), allowed={page}) == []
    calls = [node for name, node in _nodes()[ast.Call] if name == page]
    (made,) = (node for node in calls if _called(node) == "Environment")
    options = {word.arg: ast.unparse(word.value) for word in made.keywords}  # type: ignore[attr-defined]
    assert options["autoescape"] == "True"
    assert options["undefined"] == "StrictUndefined"
    assert "resource(f'report/{name}')" in options["loader"]
    names = {
        ast.unparse(node.value)  # type: ignore[attr-defined]
        for name, node in _nodes()[ast.Assign]
        if name == page and ast.unparse(node.targets[0]) == "names"  # type: ignore[attr-defined]
    }
    assert "('page.html', 'pictures.html', 'picture.svg')" in names
    every = [node for _, node in _nodes()[ast.Call]]
    loaded = [ast.unparse(node) for node in every if _called(node) == "get_template"]
    found = {text.rsplit("(", 1)[1] for text in loaded}
    assert found == {"'page.html')", "'picture.svg')"}
    assert not {"from_string", "Markup", "Template"} & {_called(node) for node in calls}


def _is_number(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, (int, float))


def _formats_a_stranger(node: ast.AST) -> bool:
    """Tell whether a function formats something that is not a template of ours."""
    return any(
        isinstance(inner, ast.Call)
        and isinstance(inner.func, ast.Attribute)
        and inner.func.attr == "format"
        and not _is_own(inner.func.value, node)
        for inner in _own_nodes(node)
    )


def _own_nodes(scope: ast.AST) -> Iterator[ast.AST]:
    """Yield what is inside a scope, functions inside it left out, for they are looked at apart."""
    for child in ast.iter_child_nodes(scope):
        if not isinstance(child, ast.FunctionDef):
            yield child
            yield from _own_nodes(child)


def _is_own(node: ast.AST, scope: ast.AST) -> bool:
    """Tell whether an expression is a text of the program, as far as one function shows it."""
    match node:
        case ast.Constant(value=value):
            return isinstance(value, str)
        case ast.IfExp(body=one, orelse=other):
            parts = [one, other]
        case ast.Subscript(value=one):
            parts = [one]
        case ast.Dict(values=parts) | ast.Tuple(elts=parts) | ast.List(elts=parts):
            pass
        case ast.Name(id=name):
            parts = list(_given(name, scope))
        case _:
            return False
    return bool(parts) and all(_is_own(part, scope) for part in parts)


def _given(name: str, scope: ast.AST) -> Iterator[ast.expr]:
    """Yield all that is assigned to a name inside a function."""
    for node in _own_nodes(scope):
        if isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign)) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                if isinstance(target, ast.Name) and target.id == name:
                    yield node.value
                elif isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                    for one, value in zip(target.elts, node.value.elts, strict=True):
                        if isinstance(one, ast.Name) and one.id == name:
                            yield value


def test_the_rule_for_templates_finds_what_it_should() -> None:
    wrong = ast.parse("def f(tensor):\n    text = tensor.name\n    return text.format(n=1)")
    right = ast.parse("def f(many):\n    text = 'a' if many else 'b'\n    text.format(n=1)")
    assert _formats_a_stranger(wrong.body[0])
    assert not _formats_a_stranger(right.body[0])
