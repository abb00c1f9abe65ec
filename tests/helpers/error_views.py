"""Driving the panel of errors as a person does."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot

from explorer.qt.compare.one_tensor import ErrorsView
from explorer.qt.document import Document
from explorer.qt.references import References
from tests.helpers.services import RecordingServices
from tests.helpers.weight_views import settle


class ErrorsPanel:
    """A panel of errors in a window of its own, which shows the first of some models."""

    def __init__(self, qtbot: QtBot, app: RecordingServices, documents: list[Document]) -> None:
        self.qtbot = qtbot
        self.app, self.runner = app, app.runner
        self.documents = documents
        self.references = References(app)
        self.references.set_documents(documents)
        self.references.show_document(documents[0])
        self.view = ErrorsView(app, self.references)
        self.view.resize(1000, 720)
        qtbot.addWidget(self.view)
        self.view.show()
        qtbot.waitExposed(self.view)
        self.view.show_document(documents[0])

    def select(self, *names: str) -> None:
        """Select tensors, without waiting."""
        rows = [self.documents[0].model.tensors.row_of(name) for name in names]
        self.view.show_tensors([row for row in rows if row is not None])
        assert None not in rows

    def click_tab(self, page: QWidget) -> None:
        """Click on the tab of a page."""
        bar = self.view.tabs.tabBar()
        place = bar.tabRect(self.view.place_of(page)).center()
        self.qtbot.mouseClick(bar, Qt.MouseButton.LeftButton, pos=place)
        assert page.isVisible()

    def settle(self) -> None:
        """Wait until nothing is read any more."""
        settle(self.qtbot, self.runner)
