"""The histogram plot: what is drawn, read, marked and zoomed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from PySide6.QtCore import QEvent, QPoint, QPointF, Qt
from PySide6.QtGui import QColor, QPalette, QWheelEvent
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from explorer.present.colours import type_colour
from explorer.qt.widgets.curves import HistogramCurve, histogram_of
from explorer.qt.widgets.histogram_plot import HistogramPlot
from tests.helpers.patience import PATIENCE_S
from tests.helpers.weight_views import drag, pixel
from tests.soak.resting import allocated

KEY = Qt.Key
CONTROL = Qt.KeyboardModifier.ControlModifier


def curve(name: str = "a", low: float = -1.0, high: float = 1.0, row: int = 0) -> HistogramCurve:
    """Return a curve of 20 bins with 1, 2, …, 20 weights, of which 90 more lie outside."""
    counts = np.arange(1, 21)
    histogram = histogram_of(np.linspace(low, high, 21), counts)
    return HistogramCurve(name, row, histogram, 300, 0.1, 0.4, low - 1, high)


@pytest.fixture
def plot(qtbot: QtBot) -> HistogramPlot:
    plot = HistogramPlot()
    qtbot.addWidget(plot)
    plot.resize(640, 400)
    plot.set_titles("Weight", "Weights")
    plot.show_curves((curve(),))
    plot.show()
    qtbot.waitExposed(plot)
    return plot


def drawn(plot: HistogramPlot, number: int = 0) -> np.ndarray:
    return np.asarray(plot._items[number].getData()[1])


def test_the_heights_are_the_counts(plot: HistogramPlot) -> None:
    assert drawn(plot).tolist() == list(range(1, 21))


def test_a_single_weight_is_visible_on_a_logarithmic_axis(plot: HistogramPlot) -> None:
    plot.set_logarithmic(True)
    heights = drawn(plot)
    np.testing.assert_allclose(heights, np.log10(np.arange(1, 21)))
    assert plot.box.viewRect().top() == pytest.approx(-0.5)
    assert "1" in plot.counts.tickStrings([0.0], 1, 1)
    plot.set_logarithmic(False)
    assert drawn(plot).tolist() == list(range(1, 21))


def test_several_curves_show_shares(plot: HistogramPlot) -> None:
    plot.show_curves((curve("a"), curve("b", row=1)))
    np.testing.assert_allclose(drawn(plot, 1), np.arange(1, 21) / 3)
    plot.highlight(1)
    assert plot.highlighted == 1
    assert [reading.curve for reading in plot.readings(0.0)] == ["b", "a"]
    plot.highlight(None)
    plot.show_curves((curve(),))
    assert drawn(plot).tolist() == list(range(1, 21))


def test_curves_have_the_colours_of_their_types_where_these_differ(plot: HistogramPlot) -> None:
    pair = [replace(curve(name), type_name=name) for name in ("F16", "Q4_K", "Q4_0")]
    plot.show_curves(tuple(pair[:2]))
    assert [plot.colour(number).name() for number in (0, 1)] == [
        type_colour("F16").lower(),
        type_colour("Q4_K").lower(),
    ]
    plot.show_curves(tuple(pair[1:]))  # of one width, and of one colour
    assert plot.colour(0) != plot.colour(1)
    plot.show_curves((curve(), pair[0]))
    assert plot.colour(0) != plot.colour(1)


def test_a_legend_names_a_few_curves_and_takes_no_name_for_html(plot: HistogramPlot) -> None:
    assert not plot._legend.isVisible()
    names = ["<b>bold</b><img src=x>", "&amp; &x"]
    plot.show_curves(tuple(curve(name, row=row) for row, name in enumerate(names)))
    assert plot._legend.isVisible()
    labels = [label for _, label in plot._legend.items]
    assert [label.item.toPlainText() for label in labels] == names
    highest = max(item.getData()[1].max() for item in plot._items)
    legend = plot._legend.mapRectToParent(plot._legend.boundingRect())
    assert legend.bottom() <= plot.box.mapFromView(QPointF(0, highest)).y()  # covers none
    plot.show_curves(tuple(curve(str(row), row=row) for row in range(9)))
    colours = {plot.colour(number).name() for number in range(9)}
    assert len(colours) == 9


def test_the_key_of_many_curves_names_some_of_them_and_the_highlighted(plot: HistogramPlot) -> None:
    def named() -> list[str]:
        return [label.item.toPlainText() for _, label in plot._legend.items]

    plot.show_curves(tuple(curve(str(row), row=row) for row in range(32)))
    assert plot._legend.isVisible()
    assert named() == ["0", "4", "8", "13", "17", "22", "26", "31"]
    plot.highlight(30)
    assert named() == ["0", "4", "8", "13", "17", "22", "26", "30", "31"]
    assert [item for item, _ in plot._legend.items][-2].item is plot._items[30]
    plot.show_curves(())
    assert not plot._legend.isVisible()


def test_the_cursor_reads_bins_by_mouse_and_keys(qtbot: QtBot, plot: HistogramPlot) -> None:
    told: list[tuple[float, float, int, float]] = []
    plot.bins_read.connect(
        lambda found: told.extend((r.low, r.high, r.count, r.share) for r in found)
    )
    qtbot.mouseMove(plot.viewport(), pixel(plot, 0.05, 5))
    qtbot.waitUntil(lambda: bool(told))
    assert told[-1] == pytest.approx((0.0, 0.1, 11, 11 / 300))
    plot.setFocus()
    qtbot.keyClick(plot, KEY.Key_Right)
    assert told[-1][2] == 12
    qtbot.keyClick(plot, KEY.Key_Left, CONTROL)
    assert told[-1][2] == 2
    for _ in range(5):
        qtbot.keyClick(plot, KEY.Key_Left)
    assert told[-1][2] == 1  # it stops at the first bin


def test_outside_the_bins_nothing_is_read(plot: HistogramPlot) -> None:
    assert plot.readings(-1.01) == plot.readings(1.01) == ()
    assert plot.readings(1.0)[0].count == 20  # the last bin holds its right edge
    assert plot.readings(float("nan")) == ()


def test_a_rubber_band_zooms_and_backspace_takes_it_back(qtbot: QtBot, plot: HistogramPlot) -> None:
    home = plot.box.viewRect()
    assert not plot.back_action.isEnabled()
    drag(plot, pixel(plot, -0.5, 15), pixel(plot, 0.5, 2))
    first = plot.box.viewRect()
    assert first.left() == pytest.approx(-0.5, abs=0.02)
    assert first.right() == pytest.approx(0.5, abs=0.02)
    assert first.bottom() == pytest.approx(15, abs=0.3)
    drag(plot, pixel(plot, -0.1, 10), pixel(plot, 0.2, 4))
    assert plot.box.viewRect().width() == pytest.approx(0.3, abs=0.02)
    plot.setFocus()
    qtbot.keyClick(plot, KEY.Key_Backspace)
    assert plot.box.viewRect() == first
    qtbot.keyClick(plot, KEY.Key_Backspace)
    assert plot.box.viewRect() == home
    drag(plot, pixel(plot, -0.5, 15), pixel(plot, 0.5, 2))
    drag(plot, pixel(plot, -0.1, 10), pixel(plot, 0.2, 4))
    qtbot.keyClick(plot, KEY.Key_Home)
    assert plot.box.viewRect() == home
    assert not plot.box.is_zoomed


def test_a_flat_band_zooms_along_x_and_a_click_does_not(plot: HistogramPlot) -> None:
    home = plot.box.viewRect()
    start = pixel(plot, -0.5, 8)
    drag(plot, start, pixel(plot, 0.5, 8))
    assert plot.box.viewRect().height() == pytest.approx(home.height(), rel=0.01)
    assert plot.box.viewRect().width() == pytest.approx(1.0, abs=0.03)
    plot.box.go_home()
    drag(plot, start, start)
    assert not plot.box.is_zoomed


def wheel(plot: HistogramPlot, place: QPoint, notches: int) -> None:
    port = plot.viewport()
    QApplication.sendEvent(
        port,
        QWheelEvent(
            QPointF(place),
            QPointF(port.mapToGlobal(place)),
            QPoint(),
            QPoint(0, 120 * notches),
            Qt.MouseButton.NoButton,
            Qt.KeyboardModifier.NoModifier,
            Qt.ScrollPhase.NoScrollPhase,
            False,
        ),
    )


def test_the_wheel_zooms_around_the_mouse(
    plot: HistogramPlot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("explorer.qt.widgets.plot._ONE_TURN_S", PATIENCE_S)
    home = plot.box.viewRect()
    place = pixel(plot, 0.5, 5)
    for _ in range(4):
        wheel(plot, place, 1)
    assert plot.box.viewRect().width() == pytest.approx(home.width() / 1.2**4)
    assert plot.box.mapSceneToView(plot.mapToScene(place)).x() == pytest.approx(0.5, abs=0.01)
    plot.box.go_back()  # one turn of the wheel is one step
    assert plot.box.viewRect() == home


def test_keys_zoom_and_pan(qtbot: QtBot, plot: HistogramPlot) -> None:
    width = plot.box.viewRect().width()
    plot.setFocus()
    qtbot.keyClick(plot, KEY.Key_Plus)
    assert plot.box.viewRect().width() == pytest.approx(width / 1.5)
    left = plot.box.viewRect().left()
    qtbot.keyClick(plot, KEY.Key_Right, Qt.KeyboardModifier.ShiftModifier)
    assert plot.box.viewRect().left() > left
    qtbot.keyClick(plot, KEY.Key_Minus)
    assert plot.box.viewRect().width() == pytest.approx(width)


def test_a_zoom_stays_while_the_histogram_grows(plot: HistogramPlot) -> None:
    plot.box.zoom_by(4, 0)
    shown = plot.box.viewRect()
    plot.show_curves((curve(low=-2, high=2),))
    assert plot.box.viewRect() == shown
    plot.box.go_back()
    assert plot.box.viewRect().left() < -2  # everything has become more


def test_a_zoom_grows_with_the_counts(plot: HistogramPlot) -> None:
    drag(plot, pixel(plot, -0.5, 15), pixel(plot, 0.5, 5))
    shown = plot.box.viewRect()
    more = curve()
    plot.show_curves(
        (replace(more, histogram=histogram_of(more.histogram.edges, np.arange(1, 21) * 9)),)
    )
    assert plot.box.viewRect().left() == shown.left()
    assert plot.box.viewRect().top() == pytest.approx(9 * shown.top())
    assert plot.box.viewRect().bottom() == pytest.approx(9 * shown.bottom())


def test_there_is_nothing_to_zoom_into_before_something_is_shown(
    qtbot: QtBot, plot: HistogramPlot
) -> None:
    plot.show_curves(())
    drag(plot, pixel(plot, -0.5, 15), pixel(plot, 0.5, 2))
    plot.setFocus()
    qtbot.keyClick(plot, KEY.Key_Plus)
    assert not plot.box.is_zoomed
    plot.show_curves((curve(low=5, high=6),))
    assert plot.box.viewRect().left() == pytest.approx(5, abs=0.1)
    drag(plot, pixel(plot, 5.2, 15), pixel(plot, 5.8, 2))
    assert plot.box.is_zoomed


def test_the_cursor_goes_with_the_pointer(qtbot: QtBot, plot: HistogramPlot) -> None:
    told: list[object] = []
    plot.bins_read.connect(told.append)
    qtbot.mouseMove(plot.viewport(), pixel(plot, 0.95, 5))
    qtbot.waitUntil(lambda: bool(told))
    assert plot._line.isVisible()
    QApplication.sendEvent(plot, QEvent(QEvent.Type.Leave))
    assert told[-1] == ()
    assert not plot._line.isVisible()
    plot.show_curves((curve(high=2),))
    assert told[-1] == ()


def test_names_of_marks_do_not_overlap_and_point_out_of_sight(plot: HistogramPlot) -> None:
    assert plot._marks.shown_names()[:2] == ["mean", "\u25c2 min -2"]
    for low, high in ((-1.0, 1.0), (-100.0, 100.0), (0.09, 0.11), (5.0, 6.0)):
        plot.show_curves((curve(low=low, high=high),))
        names = [name for name in plot._marks._names if name.isVisible()]
        boxes = [name.mapRectToScene(name.textItem.boundingRect()) for name in names]
        area = plot.box.sceneBoundingRect().adjusted(-1, -1, 1, 1)
        for number, box in enumerate(boxes):
            assert area.contains(box)
            for other in boxes[number + 1 :]:
                assert not box.adjusted(1, 2, -1, -2).intersects(other)
    plot.set_marks(False)
    assert plot._marks.shown_names() == []


def test_follows_the_palette(plot: HistogramPlot) -> None:
    palette = QPalette(plot.palette())
    palette.setColor(QPalette.ColorRole.Window, QColor("#102030"))
    plot.setPalette(palette)
    QApplication.sendEvent(plot, QEvent(QEvent.Type.PaletteChange))
    image = plot.grab().toImage()
    assert image.pixelColor(3, 3) == QColor("#102030")


@pytest.mark.parametrize("number", [0, 3, 150_000, 2_500_000])
def test_counts_on_the_axis_read_like_counts(plot: HistogramPlot, number: int) -> None:
    text = {0: "0", 3: "3", 150_000: "150 K", 2_500_000: "2.5 M"}[number]
    assert plot.counts.tickStrings([number], 1, 10) == [text]


def test_a_logarithmic_axis_has_whole_powers_only(plot: HistogramPlot) -> None:
    plot.set_logarithmic(True)
    ((_, powers),) = plot.counts.tickValues(-0.5, 12.3, 400)
    assert powers == [0, 2, 4, 6, 8, 10, 12]
    assert plot.counts.tickStrings(powers[:4], 1, 2) == ["1", "100", "10,000", "1.00 M"]


@pytest.mark.skipif(not allocated(), reason="the C library does not tell what it has given out")
def test_a_plot_keeps_no_picture_of_its_background(plot: HistogramPlot) -> None:
    plot.hide()  # so that its window keeps no picture either
    held = []
    for width, height in ((640, 400), (4000, 2000)):
        plot.resize(width, height)
        plot.grab()  # painted into a picture that is given back
        held.append(allocated())
    assert held[1] - held[0] < 8 << 20  # of 30 MiB
