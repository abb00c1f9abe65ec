"""The house rules, held by the tools that check them; run as tests so that one command runs all."""

from __future__ import annotations

import ast
import io
import os
import subprocess
import sys
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "explorer"

MODULE_LINES = 700
FUNCTION_LINES = 60
CLASS_LINES = 300
"""Lines from the first to the last, docstrings and comments included."""

# What the reorganization reached.
MODULES = 300
CODE_LINES_A_MODULE = 165
IMPORT_SHARE = 0.08
SINGLE_IMPORTERS = 47

LONG: dict[str, str] = {
    "measure": "one kernel: all moments in one walk over the weights",
    "HexView": "one widget: painting, keys and accessibility",
}
"""Functions and classes that may be longer than the limit, wherever they are, with the reason."""

_CORE_WITHOUT_QT = """
import sys
import explorer.cli.main, explorer.demo, explorer.present.model, explorer.formats, explorer.tabular
import explorer.formats.vocabulary, explorer.formats.tensor_filter, explorer.formats.structure
qt = ("PySide6", "shiboken6", "pyqtgraph")
found = [name for name in sys.modules if name.split(".")[0] in qt]
assert not found, found
"""


def _run(*command: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, *command],
        check=False,
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
    )


@pytest.mark.parametrize(
    "command",
    [
        ("-m", "ruff", "check", "--no-cache", "."),
        ("-m", "ruff", "format", "--no-cache", "--check", "."),
        ("-m", "mypy"),
        ("-c", "import sys; from importlinter.cli import lint_imports_command as c; sys.exit(c())"),
    ],
    ids=["lint", "format", "types", "layers"],
)
def test_the_tools_agree(command: tuple[str, ...]) -> None:
    result = _run(*command)
    assert result.returncode == 0, result.stdout + result.stderr


def test_the_core_runs_without_qt() -> None:
    result = _run("-c", _CORE_WITHOUT_QT)
    assert result.returncode == 0, result.stderr


@dataclass
class Module:
    """What one source file holds.

    Attributes:
        lines: All lines.
        code: Lines with code: no blank lines, comments and docstrings.
        imports: Lines of code that import.
        definitions: Name within the module → lines, of each function and class.
        classes: Which of these are classes.
        is_package: Whether it is an ``__init__``.
        importers: Names of modules that import it.
    """

    lines: int
    code: int
    imports: int
    definitions: dict[str, int]
    classes: set[str]
    is_package: bool
    importers: set[str] = field(default_factory=set)


@cache
def measure(package: Path) -> dict[str, Module]:
    """Return the modules of a package by dotted name."""
    paths = {_dotted(path, package): path for path in package.rglob("*.py")}
    modules = {}
    imported = {}
    for name, path in paths.items():
        text = path.read_text(encoding="utf-8")
        tree = ast.parse(text)
        code = _code_lines(text) - _docstring_lines(tree)
        found = [node for node in ast.walk(tree) if isinstance(node, (ast.Import, ast.ImportFrom))]
        definitions = dict(_definitions(tree, ""))
        modules[name] = Module(
            lines=len(text.splitlines()),
            code=len(code),
            imports=len(code & {line for node in found for line in _span(node)}),
            definitions={name: len(_span(node)) for name, node in definitions.items()},
            classes={name for name, node in definitions.items() if isinstance(node, ast.ClassDef)},
            is_package=path.name == "__init__.py",
        )
        imported[name] = {target for node in found for target in _targets(node)}
    for name, targets in imported.items():
        for target in targets:
            known = target if target in modules else target.rpartition(".")[0]
            if known in modules and known != name:
                modules[known].importers.add(name)
    return modules


def _dotted(path: Path, package: Path) -> str:
    parts = path.relative_to(package.parent).with_suffix("").parts
    return ".".join(parts).removesuffix(".__init__")


def _span(node: ast.stmt) -> range:
    return range(node.lineno, (node.end_lineno or node.lineno) + 1)


def _targets(node: ast.Import | ast.ImportFrom) -> list[str]:
    if isinstance(node, ast.ImportFrom):
        return [f"{node.module}.{alias.name}" for alias in node.names]
    return [alias.name for alias in node.names]


def _definitions(node: ast.AST, prefix: str) -> Iterator[tuple[str, ast.stmt]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield prefix + child.name, child
            yield from _definitions(child, f"{prefix}{child.name}.")
        else:
            yield from _definitions(child, prefix)


def _docstring_lines(tree: ast.Module) -> set[int]:
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    return {
        line
        for node in ast.walk(tree)
        if isinstance(node, kinds) and ast.get_docstring(node, clean=False) is not None
        for line in _span(node.body[0])
    }


def _code_lines(text: str) -> set[int]:
    blank = {
        *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE),
        *(tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER),
    }
    return {
        line
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type not in blank
        for line in range(token.start[0], token.end[0] + 1)
    }


def test_no_module_is_too_long() -> None:
    assert not {name: m.lines for name, m in measure(PACKAGE).items() if m.lines > MODULE_LINES}


def test_no_function_or_class_is_too_long_without_a_reason() -> None:
    found = {
        definition: f"{name}: {lines} lines"
        for name, module in measure(PACKAGE).items()
        for definition, lines in module.definitions.items()
        if lines > (CLASS_LINES if definition in module.classes else FUNCTION_LINES)
    }
    assert not {name: place for name, place in found.items() if name not in LONG}
    assert not LONG.keys() - found.keys(), "these are short enough now: take them off the list"


def single_importers() -> set[str]:
    """Return the modules that exactly one other imports, packages' own left out."""
    return {
        name
        for name, module in measure(PACKAGE).items()
        if not module.is_package and len(module.importers) == 1
    }


def scattered_packages() -> dict[str, float]:
    """Return the packages most of whose modules have one importer, with the share of those.

    Packages of fewer than five modules do not count: one module of theirs imports the others.
    """
    members = defaultdict(list)
    for name, module in measure(PACKAGE).items():
        if not module.is_package:
            members[name.rpartition(".")[0]].append(name)
    single = single_importers()
    shares = {
        package: sum(name in single for name in names) / len(names)
        for package, names in members.items()
        if len(names) >= 5
    }
    return {package: share for package, share in shares.items() if share > 0.5}


def test_the_house_is_no_maze() -> None:
    modules = measure(PACKAGE)
    code = sum(module.code for module in modules.values())
    imports = sum(module.imports for module in modules.values())
    single = single_importers()
    figures = (
        f"{len(modules)} modules, {code / len(modules):.0f} code lines a module, "
        f"{imports / code:.1%} imports, {len(single)} modules with one importer, "
        f"scattered: {scattered_packages()}"
    )
    assert len(modules) <= MODULES, figures
    assert code / len(modules) >= CODE_LINES_A_MODULE, figures
    assert imports / code <= IMPORT_SHARE, figures
    assert len(single) <= SINGLE_IMPORTERS, figures
    assert not scattered_packages(), figures


def test_measures_are_those_of_a_small_package(tmp_path: Path) -> None:
    package = tmp_path / "explorer"
    package.mkdir()
    (package / "__init__.py").write_text('"""Head."""\n')
    (package / "one.py").write_text(
        '"""Head."""\n\nfrom explorer import two\n\n\n'
        'class A:\n    """Doc."""\n\n    def f(self) -> int:\n        return 1  # why\n'
    )
    (package / "two.py").write_text("# nothing\nimport os\n\nX = (\n    1,\n)\n")
    modules = measure(package)
    one, two = modules["explorer.one"], modules["explorer.two"]
    assert (one.lines, one.code, one.imports) == (10, 4, 1)
    assert one.definitions == {"A": 5, "A.f": 2}
    assert one.classes == {"A"}
    assert (two.code, two.imports, two.importers) == (4, 1, {"explorer.one"})
    assert modules["explorer"].is_package
