"""Take the pictures of the README: every view, light and dark, some at twice the scale.

  .venv/bin/python packaging/screenshots.py [MODEL]

MODEL is the demo model if there is none. Pictures go to resources/screenshots/. Look at each one.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the path is set first, and what starts the sheets needs no Qt
    from PySide6.QtGui import QImage, QPixmap
    from PySide6.QtWidgets import QDialog

    from explorer.qt.document import Document
    from explorer.qt.library.nodes import Node
    from explorer.qt.main_window import MainWindow

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "resources" / "screenshots"
SIZE = (1280, 800)
TEMPLATE_KEY = "tokenizer.chat_template"
LIMIT_S = 120
COMMONEST, SEEN, APART = 160, 6, 48  # of colours in a picture: see `shrink`
# Scheme, scale, views. One process each: Qt reads the scale when it starts.
SHEETS = (
    (
        "light",
        1,
        "overview,tensors,weights,errors,what-if,survey,by-layer,quick-open,planner,library",
    ),
    ("light", 1, "metadata"),
    ("dark", 1, "vocabulary,raw,map,block,density,survey,by-layer,worst-tensors,type-mix,planner"),
    ("dark", 2, "overview,planner,library"),
)
DEMO_VIEWS = "metadata"  # of the demo model, which has a chat template
PAGES = {  # views that are pages of a panel: the panel, and the page in its body
    "map": ("weights", "map"),
    "block": ("weights", "block_page"),
    "errors": ("errors", "pictures.errors"),
    "density": ("errors", "pictures.density"),
    "what-if": ("what_if", ""),
    "survey": ("error_map", ""),
    "by-layer": ("error_layers", ""),
    "worst-tensors": ("survey", "worst_tensors"),
    "type-mix": ("survey", "type_mix"),
}
ROUNDED_TO = "Q4_0"  # what pictures of errors compare with, so that one model is enough


def take_all(models: list[str]) -> int:
    """Take every sheet in a process of its own; return the exit status."""
    for scheme, scale, views in SHEETS:
        environment = {**os.environ, "QT_QPA_PLATFORM": "offscreen", "QT_SCALE_FACTOR": str(scale)}
        command = [sys.executable, __file__, "--sheet", scheme, str(scale), views]
        command += [] if views == DEMO_VIEWS else models
        done = subprocess.run(command, env=environment, cwd=ROOT, check=False)
        if done.returncode:
            return done.returncode
    return 0


def take_sheet(scheme: str, scale: str, views: list[str], models: list[Path]) -> None:
    """Open the models and take the pictures of some views."""
    from PySide6.QtWidgets import QApplication  # noqa: PLC0415 - the parent needs no Qt

    from explorer.paths import demo_model  # noqa: PLC0415
    from explorer.qt.main_window import MainWindow  # noqa: PLC0415
    from explorer.qt.quick_open import QuickOpen  # noqa: PLC0415
    from explorer.qt.settings import Settings  # noqa: PLC0415
    from explorer.qt.theme import Scheme, apply_scheme  # noqa: PLC0415

    app = QApplication(sys.argv[:1])
    app.setStyle("Fusion")
    apply_scheme(Scheme(scheme))
    window = MainWindow(Settings(fresh=True))
    window.showNormal()  # the screen without a display is small, and a window takes all of it
    window.resize(*SIZE)
    models = models or [demo_model()]
    window.bottom.machine.show_machine()  # as the program does at its start
    window.open_paths(models)
    settle(lambda: len(window.documents) == len(models) and not window.runner.jobs)
    settle(lambda: window.panels.machine.known)
    document = window.documents[0]
    window.show_document(None)
    # pictures show no private folders
    object.__setattr__(document, "path", Path("/models") / document.path.name)
    window.show_document(document)
    window.open_models.reveal_model(document)
    for view in views:
        if view == "quick-open":
            window.show_quick_open()
            dialog = app.activeModalWidget()
            assert isinstance(dialog, QuickOpen)
            dialog.edit.setText("attn 0")
        else:
            show_view(window, document, view)
        settle(lambda: not window.runner.jobs)
        picture = window.grab()
        if view == "quick-open":
            assert isinstance(dialog, QuickOpen)
            paint_over(picture, window, dialog)
            dialog.close()
        name = f"{view}-{scheme}{'' if scale == '1' else f'-{scale}x'}.png"
        shrink(picture).save(str(FOLDER / name), quality=0)
        print(f"{name}: {(FOLDER / name).stat().st_size // 1024} KiB")
    window.close()


def show_view(window: MainWindow, document: Document, view: str) -> None:
    """Bring a panel to the state that its picture shows."""
    if view == "metadata":
        keys = [entry.key for entry in document.model.metadata.entries]
        window.reveal_key(document, keys.index(TEMPLATE_KEY) if TEMPLATE_KEY in keys else 0)
    elif view == "tensors":
        window.panels.tensors.widget.bar.edit.setText("ffn layer:0-7 size>100k")
        rows = window.panels.tensors.widget.model.rows
        window.reveal_tensor(document, int(rows[min(2, len(rows) - 1)]) if len(rows) else 0)
    elif view == "vocabulary":
        window.panels.vocabulary.widget.bar.edit.setText("ing")
    elif view == "weights":
        window.reveal_tensor(document, the_largest(document))
    elif view in PAGES:
        show_page(window, document, view)
        return
    elif view == "planner":
        show_planner(window)
    elif view == "library":
        show_library(window)
    elif view == "raw":
        window.panels.setCurrentWidget(window.panels.raw)
        window.reveal_key(document, 0)
    window.panels.setCurrentWidget(getattr(window.panels, view))


def show_page(window: MainWindow, document: Document, view: str) -> None:
    """Bring a page of a panel to the state that its picture shows."""

    from explorer.qt.references import Rounding  # noqa: PLC0415

    panel_name, page_name = PAGES[view]
    panels = window.panels
    panels.references.choose(None if view in ("what-if", "map") else Rounding(ROUNDED_TO))
    window.reveal_tensor(document, the_largest(document))
    holder = getattr(panels, panel_name)
    panels.setCurrentWidget(holder)
    body = holder.widget
    if page_name:
        body.show_page(attrgetter(page_name)(body))
    session = getattr(body, "session", None)
    if session is not None:
        settle(lambda: not window.runner.jobs)  # it looks at its cache
        session.start()
        settle(lambda: not window.runner.jobs)


def show_library(window: MainWindow) -> None:
    """List a small store, and open one of its models as far as its tensors."""

    from explorer.paths import demo_model  # noqa: PLC0415
    from explorer.stores.entries import Place, StoreKind  # noqa: PLC0415

    sample = ROOT.parent / "shared" / "data" / "ollama_store" / "models"
    folder = Path(tempfile.mkdtemp()) / "models"  # pictures show no private folders
    shutil.copytree(sample if sample.is_dir() else demo_model().parent, folder)
    kind = StoreKind.OLLAMA if sample.is_dir() else StoreKind.FOLDER
    view = window.panels.library.widget
    view.scanner.places = lambda: [Place(kind, folder)]
    window.panels.setCurrentWidget(window.panels.library)

    def idle() -> bool:
        return not window.runner.jobs

    settle(idle)
    model = list(view.model.entries())[-1]  # of the sample: experts in three layouts
    branch: Node | None = model
    while branch is not None:
        view.show_model(branch)
        view.tree.expand(view.model.index_of(branch))
        settle(idle)
        branch = next((node for node in branch.children if "experts" in node.row.title), None)
    view.show_model(model)
    view.watch.watch(())
    shutil.rmtree(folder.parent)


def show_planner(window: MainWindow) -> None:
    """Plan for a GPU that does not quite hold the model, and not for this machine."""

    from explorer.planner import Device, Host  # noqa: PLC0415

    window.panels.setCurrentWidget(window.panels.planner)
    view = window.panels.planner.widget
    state = view.state

    def ready() -> bool:
        return view.body is not None and state.machine is not None

    settle(ready)
    state.set(context=16384)
    state.replace_inputs(host=Host(32 << 30, 8 << 30))
    state.replace_inputs(devices=())
    state.flush()
    plan = state.current.plan
    assert plan is not None
    # room for what llama.cpp leaves free, and for most of the layers
    free = (1 << 30) + (plan.weights + plan.cache) * 3 // 4
    state.replace_inputs(devices=(Device("0", "CUDA", free, name="Small GPU"),))


def the_largest(document: Document) -> int:
    """Return the row of the tensor of most weights that lies in a layer."""
    arrays = document.arrays
    return int((arrays.parameters * (arrays.layers >= 0)).argmax())


def settle(condition: Callable[[], bool]) -> None:
    """Let events run until a condition holds, and then until nothing moves any more."""
    from PySide6.QtWidgets import QApplication  # noqa: PLC0415

    end = time.monotonic() + LIMIT_S
    quiet_since = None
    while time.monotonic() < end:
        QApplication.processEvents()
        now = time.monotonic()
        quiet_since = (quiet_since or now) if condition() else None
        if quiet_since is not None and now - quiet_since > 0.3:
            return
        time.sleep(0.005)
    sys.exit("the window did not come to rest")


def paint_over(picture: QPixmap, window: MainWindow, dialog: QDialog) -> None:
    """Paint a dialog into the picture of its window, where it lies on a screen."""
    from PySide6.QtCore import QPoint  # noqa: PLC0415
    from PySide6.QtGui import QPainter  # noqa: PLC0415

    painter = QPainter(picture)
    place = QPoint((window.width() - dialog.width()) // 2, (window.height() - dialog.height()) // 3)
    painter.drawPixmap(place, dialog.grab())
    painter.setPen(dialog.palette().mid().color())
    painter.drawRect(place.x(), place.y(), dialog.width(), dialog.height())
    painter.end()


def shrink(picture: QPixmap) -> QImage:
    """Return a picture as an image of 256 of its colours: a file a third of the size.

    They are the commonest, and the commonest of those that none of them is near: the few pixels of
    a type's colour must not become another type's.
    """
    import numpy as np  # noqa: PLC0415
    from PySide6.QtCore import Qt  # noqa: PLC0415
    from PySide6.QtGui import QImage  # noqa: PLC0415

    image = picture.toImage().convertToFormat(QImage.Format.Format_RGB32)
    pixels = np.frombuffer(image.constBits(), np.uint32)
    colours, counts = np.unique(pixels, return_counts=True)
    colours, counts = colours[order := np.argsort(-counts)], counts[order]
    parts = np.stack([colours >> shift & 255 for shift in (16, 8, 0)], axis=1).astype(np.int32)
    kept = list(range(min(COMMONEST, len(colours))))
    for place in np.flatnonzero(counts >= SEEN)[COMMONEST:].tolist():
        apart = np.abs(parts[kept] - parts[place]).sum(axis=1).min()
        if len(kept) < 256 and apart > APART:
            kept.append(place)
    rest = [place for place in range(COMMONEST, len(colours)) if place not in set(kept)]
    table = colours[kept + rest[: 256 - len(kept)]]
    flags = Qt.ImageConversionFlag.ThresholdDither | Qt.ImageConversionFlag.AvoidDither
    return image.convertToFormat(QImage.Format.Format_Indexed8, table.tolist(), flags)


def main(arguments: list[str]) -> int:
    """Take the pictures, or one sheet of them."""
    if arguments[:1] == ["--sheet"]:
        scheme, scale, views, *models = arguments[1:]
        take_sheet(scheme, scale, views.split(","), [Path(model) for model in models])
        return 0
    FOLDER.mkdir(parents=True, exist_ok=True)
    return take_all(arguments)


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    sys.exit(main(sys.argv[1:]))
