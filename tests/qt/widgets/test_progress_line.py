"""What the line below a plot says."""

from __future__ import annotations

from pytestqt.qtbot import QtBot

from explorer.qt.widgets.progress import ProgressLine
from explorer.quantization.kernel_sets import rounding_to


def test_kernels_are_told_by_their_types(qtbot: QtBot) -> None:
    line = ProgressLine()
    qtbot.addWidget(line)
    line.start(["Q4_1", "Q8_0", rounding_to("Q4_1"), rounding_to("Q4_K")])
    assert line.label.text() == "Preparing the kernels for Q4_1, Q8_0, Q4_K…"
