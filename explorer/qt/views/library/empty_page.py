"""What the panel shows where nothing is downloaded."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QHBoxLayout, QLabel, QPushButton, QSizePolicy, QVBoxLayout, QWidget

_TEXT_WIDTH = 620


class EmptyPage(QWidget):
    """Says that nothing was found, where it was looked for, and what one can do.

    Attributes:
        demo: Opens the demo model.
        add: Adds a folder.

    Signals:
        demo_requested: The demo model shall be opened.
        add_requested: A folder shall be added.
    """

    demo_requested = Signal()
    add_requested = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        title = QLabel(self.tr("No downloaded models yet"), self)
        font = title.font()
        font.setPointSizeF(1.6 * font.pointSizeF())
        title.setFont(font)
        text = QLabel(
            self.tr(
                "The models that Ollama, Hugging Face, LM Studio and llama.cpp download are "
                "listed here as soon as there are any. Do you keep models elsewhere? Add that "
                "folder. Or look around in a small demo model that this program makes itself."
            ),
            self,
        )
        text.setWordWrap(True)
        text.setFixedWidth(_TEXT_WIDTH)
        text.setMinimumHeight(text.heightForWidth(_TEXT_WIDTH))
        text.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.MinimumExpanding)
        self.demo = QPushButton(self.tr("Open the &demo model"), self)
        self.demo.setDefault(True)
        self.demo.clicked.connect(self.demo_requested)
        self.add = QPushButton(self.tr("&Add a folder…"), self)
        self.add.clicked.connect(self.add_requested)
        buttons = QHBoxLayout()
        buttons.addStretch(1)
        buttons.addWidget(self.demo)
        buttons.addWidget(self.add)
        buttons.addStretch(1)
        layout = QVBoxLayout(self)
        layout.setSpacing(18)
        layout.addStretch(2)
        for label in (title, text):
            label.setTextFormat(Qt.TextFormat.PlainText)
            label.setAlignment(Qt.AlignmentFlag.AlignCenter)
            layout.addWidget(label, 0, Qt.AlignmentFlag.AlignHCenter)
        layout.addLayout(buttons)
        layout.addStretch(3)
