"""What holds for everything that the window shows, found by walking over all of it.

The walk is in the pseudo-locale, so that one walk tells what was not translated and what is cut
off, and what has no name for those who cannot see it.
"""

from __future__ import annotations

import ast
import html
import re
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QAccessible
from PySide6.QtTest import QTest
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractSpinBox,
    QApplication,
    QComboBox,
    QHeaderView,
    QLabel,
    QLineEdit,
    QMenu,
    QWidget,
)
from pytestqt.qtbot import QtBot

import explorer
from explorer.qt.app import install_roles
from explorer.qt.document import Document
from explorer.qt.main_window import MainWindow
from explorer.qt.references import Rounding
from explorer.qt.widgets.labels import ElidedLabel
from tests.helpers.everywhere import dialogs, everywhere, named, settle, visible
from tests.helpers.pseudo_locale import PseudoTranslator, unmarked
from tests.helpers.seen_texts import DATA, Seen, texts_of

pytestmark = pytest.mark.slow

_PACKAGE = Path(explorer.__file__).parent
_WIDTH, _HEIGHT = 1280, 800
_WORD = re.compile(r"[A-Za-z]{2,}")
_MOST_STOPS = 120

# Words that are the same in every language: units, file formats, proper names, keys.
_NAMES = frozenset(
    _WORD.findall(
        "KiB MiB GiB NaN inf GGUF Explorer Ollama ollama graphsize llama cpp server huggingface "
        "Modelfile CSV JSON PNG SVG NumPy npy NVIDIA GPU CPU CUDA ROCm Metal Vulkan AMD Intel "
        "Apple Ctrl Shift Alt Escape Enter Esc Return Backspace Home End Left Right Up Down PgUp "
        "PgDown Del Delete Tab Space qt br true false vram"
    )
)
# Where every text comes from a model or from the catalogue of GPUs.
_DATA_TABLES = re.compile(
    r"^(Métådåtå|Vöçåbûlårý|GPU catalogue|Mödélš|Wéîghtš / .*Våluéš)|TableView in CatalogueDialog"
)


@pytest.fixture
def pseudo(qapp: QApplication) -> Iterator[None]:
    """Speak the language that nobody speaks."""
    translator = PseudoTranslator()
    qapp.installTranslator(translator)
    _forget_texts()
    yield
    qapp.removeTranslator(translator)
    _forget_texts()


def _forget_texts() -> None:
    """Forget the texts that are made once for a run of the program, in its one language."""
    modules = [each for name, each in sys.modules.items() if name.startswith("explorer.qt.")]
    for module in modules:
        for thing in vars(module).values():
            if hasattr(thing, "cache_clear"):
                thing.cache_clear()


@pytest.fixture
def full(
    pseudo: None, make_window: Callable[..., MainWindow], demo_path: Path, qtbot: QtBot
) -> MainWindow:
    """A window of the usual size, with a tensor selected."""
    install_roles()
    window = make_window(demo_path)
    window.resize(_WIDTH, _HEIGHT)
    window.reveal_tensor(window.documents[0], 3)
    settle(qtbot, window)
    return window


def _all_places(qtbot: QtBot, window: MainWindow) -> Iterator[tuple[str, QWidget]]:
    """Walk over everything, compared with nothing and with a type; then the dialogs and the frame.

    Without the reference the walk is over the one panel that then shows other pages.
    """
    window.panels.references.choose(None)
    window.panels.setCurrentWidget(window.panels.errors)
    settle(qtbot, window)
    yield "Errors without a reference", window.panels.errors
    window.panels.references.choose(Rounding("Q4_0"))
    for name, page in everywhere(qtbot, window):
        yield unmarked_name(name), page
    for name, dialog in dialogs(qtbot, window):
        yield name, dialog
    yield "Open models", window.open_models
    yield "Status bar", window.statusBar()


def unmarked_name(name: str) -> str:
    """Return the name of a place without the marks of the pseudo-locale."""
    return re.sub(r"[⟦⟧]| é+\b", "", name)


def _words_of(document: Document) -> set[str]:
    """Return the words that come from the model."""
    words: set[str] = set()
    for entry in document.model.metadata.entries:
        words.update(_WORD.findall(f"{entry.key} {entry.type_name}"))
        if entry.length is None:
            words.update(_WORD.findall(str(entry.value)))
    for tensor in document.model.tensors.rows:
        words.update(_WORD.findall(f"{tensor.name} {tensor.type.name}"))
    words.update(_WORD.findall(str(document.path)))
    return words | _NAMES


@cache
def _core_phrases() -> re.Pattern[str]:
    """Match what the core says. It knows no Qt, so its texts are shown in English as they are."""
    phrases: set[str] = set()
    for path in _PACKAGE.rglob("*.py"):
        if path.is_relative_to(_PACKAGE / "qt"):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                parts = re.split(r"\{[^}]*\}|\n", node.value)
                phrases.update(part.strip() for part in parts if _WORD.search(part))
    longest_first = sorted(phrases, key=len, reverse=True)
    return re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, longest_first))})(?!\w)", re.IGNORECASE)


def _untranslated(seen: Seen, known: set[str]) -> str:
    if seen.kind in DATA - {"cell"}:
        return ""
    rest = _core_phrases().sub(" ", html.unescape(unmarked(seen.text)))
    rest = re.sub(r"\b[0-9a-f]{12}\b", "", rest)  # a commit
    rest = re.sub(r"\b(IQ|TQ|MXFP|NVFP|BF|Q|F|I)\d\w*", "", rest)  # types, also of recipes
    return " ".join(word for word in _WORD.findall(rest) if word not in known)


def _cut(widget: QWidget) -> str:
    """Return the text that a widget has no room for, unless it loses its middle by design."""
    width = widget.width() + 1
    match widget:
        case ElidedLabel():
            return ""
        case QLabel() if not widget.wordWrap() and not widget.pixmap():
            lines = widget.text().replace("&", "").split("\n")
            needed = max(map(widget.fontMetrics().horizontalAdvance, lines))
            return widget.text() if width < needed else ""
        case QAbstractButton() if widget.text():
            return widget.text() if width < widget.sizeHint().width() else ""
        case QComboBox():
            text = widget.currentText()
            return text if width < widget.fontMetrics().horizontalAdvance(text) + 24 else ""
        case QHeaderView() if widget.orientation() == Qt.Orientation.Horizontal:
            return " ".join(_cut_sections(widget))
    return ""


def _cut_sections(header: QHeaderView) -> Iterator[str]:
    """Yield the titles of columns that are cut and that nobody can make wider."""
    for section in range(header.count() if header.model() is not None else 0):
        fixed = header.sectionResizeMode(section) == QHeaderView.ResizeMode.Fixed
        if not fixed or header.isSectionHidden(section):
            continue
        if header.sectionSize(section) + 1 < header.sectionSizeHint(section):
            yield str(header.model().headerData(section, Qt.Orientation.Horizontal))


def test_everything_is_translated_and_nothing_is_cut_off(qtbot: QtBot, full: MainWindow) -> None:
    known = _words_of(full.documents[0])
    foreign, cut, checked = set(), set(), 0
    for place, page in _all_places(qtbot, full):
        assert full.width() == _WIDTH, place  # nothing asks for a wider window
        assert full.height() == _HEIGHT, place
        for widget in visible(page):
            if _cut(widget):
                cut.add(f"{place}: {named(widget)}: {_cut(widget)}")
            for seen in texts_of(widget):
                checked += 1
                kind = f"{type(widget).__name__} in {type(widget.parent()).__name__} {seen.kind}"
                line = f"{kind}: {seen.text[:160]}"
                if kind.startswith("_PlainLabel in DevicesBox"):
                    continue  # what was found of this machine, with the words of a driver
                if seen.kind == "cell" and _DATA_TABLES.search(f"{place} {kind}"):
                    continue
                words = _untranslated(seen, known)
                if words:
                    foreign.add(f"{place} | {line} | {words}")
    for menu in full.findChildren(QMenu):
        foreign.update(
            f"menu: {seen.text}" for seen in texts_of(menu) if _untranslated(seen, known)
        )
    assert checked > 3000
    _none(foreign)
    _none(cut)


def _none(found: set[str]) -> None:
    if found:
        pytest.fail("\n".join(sorted(found)))


_CLIENT = QAccessible.Role.Client


def _complaints(widget: QWidget) -> Iterator[str]:
    """Yield what those who cannot see a widget that takes the keyboard would miss."""
    interface = QAccessible.queryAccessibleInterface(widget)
    name = interface.text(QAccessible.Text.Name).strip()
    if not (widget.accessibleName().strip() or name):
        yield "no name"
    if name == type(widget).__name__ or widget.accessibleName() == type(widget).__name__:
        yield "is called by its class"
    if interface.role() in (_CLIENT, QAccessible.Role.NoRole):
        yield f"role {interface.role().name}"
    if isinstance(widget, QComboBox) and not _labelled(interface) and not widget.toolTip():
        # on X11 and Wayland the name of a combo box is its value: a label or a tip must tell
        yield "a list of choices without a label or a tip"
    ours = type(widget).__module__.startswith("explorer.")
    told = interface.text(QAccessible.Text.Description) or interface.text(QAccessible.Text.Value)
    if ours and hasattr(widget, "accessible_role") and not told:
        yield "says nothing of what it shows"


def _labelled(interface: object) -> bool:
    label = QAccessible.RelationFlag.Label
    return any(flag & label for _, flag in interface.relations(label))  # type: ignore[attr-defined]


def _takes_keys(widget: QWidget) -> bool:
    """Whether Tab has to come here."""
    policy = widget.focusPolicy()
    inner = isinstance(widget, QLineEdit) and isinstance(
        widget.parent(), QAbstractSpinBox | QComboBox
    )
    return (
        bool(policy & Qt.FocusPolicy.TabFocus)
        and widget.isEnabled()
        and widget.focusProxy() is None
        and not inner
    )


def _round(start: QWidget, key: Qt.Key) -> list[QWidget]:
    """Press Tab, or Shift+Tab, until the focus is where it has been; return where it went."""
    start.setFocus(Qt.FocusReason.TabFocusReason)
    stops: list[QWidget] = []
    for _ in range(_MOST_STOPS):
        focus = QApplication.focusWidget()
        if focus is None or focus in stops:
            break
        stops.append(focus)
        QTest.keyClick(focus, key)
    return stops


def test_those_who_cannot_see_or_point_get_everywhere(qtbot: QtBot, full: MainWindow) -> None:
    missing, unreached, trapped, counted = set(), set(), set(), 0
    for place, page in _all_places(qtbot, full):
        keyed = [widget for widget in visible(page) if _takes_keys(widget)]
        for widget in visible(page):
            if _takes_keys(widget) or hasattr(widget, "accessible_role"):
                counted += 1
                missing.update(f"{place}: {named(widget)}: {what}" for what in _complaints(widget))
        if not keyed or page in (full.open_models, full.statusBar()):
            continue
        for key in (Qt.Key.Key_Tab, Qt.Key.Key_Backtab):
            stops = _round(keyed[0], key)
            if QApplication.focusWidget() is not keyed[0]:
                trapped.add(f"{place}: {key.name}: {[named(stop) for stop in stops[-3:]]}")
            unreached.update(f"{place}: {key.name}: {named(w)}" for w in keyed if w not in stops)
    assert counted > 300
    _none(missing)
    _none(trapped)
    _none(unreached)
