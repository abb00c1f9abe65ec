"""What the tour of the window shows."""

from __future__ import annotations

from functools import partial

from PySide6.QtCore import QCoreApplication, QRect
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QMenuBar, QTabBar, QWidget

from explorer.qt.panels import Panels
from explorer.qt.views.contents.open_models import OpenModelsView
from explorer.qt.views.tour.tour import Stop

_TREE_HEIGHT = 220  # of the tree, only the upper part is framed: the box stands beside it


def tour_stops(menus: QMenuBar, open_models: OpenModelsView, panels: Panels) -> list[Stop]:
    """Return the stops of the tour through a window, which has these parts."""
    tabs, tree, search = panels.tabBar(), open_models.tree, panels.tensors.bar.edit

    def tab(*pages: QWidget) -> partial[QRect]:
        return partial(_tabs_area, tabs, [panels.indexOf(page) for page in pages])

    return [
        Stop(
            _tr("Open a model"),
            _tr(
                "Ctrl+O opens a file; or drop files and folders anywhere in the window. Models are "
                "only read, never changed, and nothing is sent anywhere."
            ),
            menus,
            partial(_menu_area, menus, 0),
        ),
        Stop(
            _tr("What is open"),
            _tr(
                "Each model with its metadata and tensors. What you select here is shown in every "
                "panel."
            ),
            tree,
            lambda: QRect(0, 0, tree.width(), min(tree.height(), _TREE_HEIGHT)),
        ),
        Stop(
            _tr("Ways to look"),
            _tr(
                "From what is downloaded on this disk to single bytes. Alt and a number show a "
                "panel: Alt+1 the first one."
            ),
            tabs,
            tabs.rect,
        ),
        Stop(
            _tr("Filter as you type"),
            _tr("Try “ffn type:q6_k size>1M layer:3-7”. Ctrl+F comes here, Escape clears it."),
            search,
            search.rect,
            partial(panels.setCurrentWidget, panels.tensors),
        ),
        Stop(
            _tr("Weights"),
            _tr(
                "Select a tensor and see how its weights are spread, as a histogram and as a map, "
                "down to the bits of one block."
            ),
            tabs,
            tab(panels.weights),
        ),
        Stop(
            _tr("Errors and survey"),
            _tr(
                "What quantization has cost a tensor and what other types would cost; and all "
                "tensors of the model on one map."
            ),
            tabs,
            tab(panels.errors, panels.survey),
        ),
        Stop(
            _tr("Planner"),
            _tr(
                "Drag the context and see which layers fit on your GPUs, with the formula of every "
                "figure."
            ),
            tabs,
            tab(panels.planner),
        ),
        Stop(
            _tr("Never lost"),
            _tr(
                "Ctrl+K goes to anything by name. F1 opens the guide at the panel in front. "
                "Shift+F1 explains a figure. The tour is in this menu too."
            ),
            menus,
            partial(_menu_area, menus, -1),
        ),
    ]


def _tabs_area(tabs: QTabBar, places: list[int]) -> QRect:
    area = QRect()
    for place in places:
        area = area.united(tabs.tabRect(place))
    return area


def _menu_area(menus: QMenuBar, place: int) -> QRect:
    """Return where a menu's title is; nowhere if the system shows the menus elsewhere."""
    actions: list[QAction] = menus.actions()
    return menus.actionGeometry(actions[place]) if actions else QRect()


def _tr(text: str) -> str:
    return QCoreApplication.translate("TourStops", text)
