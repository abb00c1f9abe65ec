"""The house rules, held by the tools that check them; run as tests so that one command runs all.

A function that nobody can read is found by ruff: too complex (C901), too many branches or
statements (PLR0912, PLR0915).
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent

_CORE_WITHOUT_QT = """
import sys
import explorer.cli.main, explorer.present.model, explorer.formats, explorer.tabular
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


def _types_of(platform: str) -> Any:
    """Look for what Python has not there; a cache of its own, or each would spoil the other's."""
    cache = f"--cache-dir=.mypy_cache/{platform}"
    return pytest.param(
        ("-m", "mypy", "-p", "explorer", "--platform", platform, cache), marks=pytest.mark.slow
    )


@pytest.mark.parametrize(
    "command",
    [
        ("-m", "ruff", "check", "--no-cache", "."),
        ("-m", "ruff", "format", "--no-cache", "--check", "."),
        pytest.param(("-m", "mypy"), marks=pytest.mark.slow),
        _types_of("win32"),
        _types_of("darwin"),
        ("-c", "import sys; from importlinter.cli import lint_imports_command as c; sys.exit(c())"),
    ],
    ids=["lint", "format", "types", "types-windows", "types-macos", "layers"],
)
def test_the_tools_agree(command: tuple[str, ...]) -> None:
    result = _run(*command)
    assert result.returncode == 0, result.stdout + result.stderr


def test_the_core_runs_without_qt() -> None:
    result = _run("-c", _CORE_WITHOUT_QT)
    assert result.returncode == 0, result.stderr


def test_no_modules_import_each_other(tmp_path: Path) -> None:
    assert not cycle(ROOT / "explorer")
    package = tmp_path / "house"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "one.py").write_text("from house import two\n")
    two = package / "two.py"
    two.write_text("if TYPE_CHECKING:\n    from house.one import One\n")
    assert not cycle(package)
    two.write_text("def late():\n    from house.one import One\n")
    assert cycle(package) == ["house.one", "house.two"]
    two.write_text("")
    (package / "__init__.py").write_text("from house.one import One\n")
    assert cycle(package) == ["house", "house.one"]
    (package / "one.py").write_text("from house.two import Two\n")
    assert not cycle(package)


def cycle(package: Path) -> list[str]:
    """Return modules that import each other, at the head or later, one after the other.

    What is imported for annotations only does not count. A package is imported with its modules;
    `from package import name` waits for the package, also in a module of its own: where two
    threads import, each may wait for the other, and Python gives one of them half a module.
    """
    paths = {_dotted(path, package): path for path in sorted(package.rglob("*.py"))}
    graph = {name: _imported(name, path) & paths.keys() for name, path in paths.items()}
    while leaves := [name for name, targets in graph.items() if not targets & graph.keys()]:
        for name in leaves:  # no way leads on from it
            del graph[name]
    seen: list[str] = []
    while graph and (not seen or seen[-1] not in seen[:-1]):
        seen.append(min(graph[seen[-1]] & graph.keys()) if seen else min(graph))
    return seen[seen.index(seen[-1]) : -1] if seen else []


def _dotted(path: Path, package: Path) -> str:
    parts = path.relative_to(package.parent).with_suffix("").parts
    return ".".join(parts).removesuffix(".__init__")


def _imported(name: str, path: Path) -> set[str]:
    """Return what a module imports, and the packages of that which are not its own."""
    found, waits = set(), set()
    for node in _statements(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            waits.add(str(node.module))
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    parents = {one.rsplit(".", depth)[0] for one in found for depth in range(one.count(".") + 1)}
    found |= {one for one in parents if not f"{name}.".startswith(f"{one}.")}
    return (found | waits) - {name}


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if not (isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING"):
            yield child
            yield from _statements(child)
