"""The picture: bars that add up, patterns beside colours, layers, a boundary to drag."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from PySide6.QtCore import QPoint, QPointF, QSize, Qt
from PySide6.QtGui import QImage, QPainter
from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot

from explorer.planner import Device
from explorer.present.plan import Kind
from explorer.qt.planner.picture import LayerStrip, MemoryBars
from explorer.qt.widgets.painting import fill_kind, plain_tip
from explorer.text import bytes_text
from tests.qt.planner.plan_models import GIB, Panel, drag

KEY = Qt.Key
TWO = (Device("0", "CUDA", 2 * GIB, name="First"), Device("1", "CUDA", 3 * GIB, name="Second"))


def _image(widget: QWidget) -> QImage:
    return widget.grab().toImage()


def _colours(image: QImage) -> Counter[int]:
    return Counter(image.pixel(x, y) for x in range(image.width()) for y in range(image.height()))


def test_hovering_a_part_shows_bytes_and_formula(panel: Panel) -> None:
    plan = panel.assert_shown()
    bars = panel.body.picture.bars
    area = bars.part_area((0, 0))
    assert bars.hit(area.center()) == (0, 0)
    text = bars.describe((0, 0))
    held = plan.gpus[0]
    assert f"({held.weights:,} bytes)" in text
    assert "devices[0].weights = sum(parts)" in text


def test_a_key_that_is_too_wide_is_wrapped_with_all_its_numbers(panel: Panel) -> None:
    panel.assert_shown()
    bars = MemoryBars(str, panel.view)
    bars.show_bars(panel.body.picture.bars.bars)
    named = [part for part in bars.bars[0].parts if part.nbytes]
    heights = []
    for width in (900, 200):
        with bars.sized(QSize(width, bars.height())):
            heights.append(bars.minimumHeight())
        rows = list(bars._key(bars.bars[0], width))
        assert [row[2] for row in rows] == [part for part in named if part.kind is not Kind.FREE]
        for _, start, part, size in rows:
            words = f"{part.kind.label} {size}"
            assert start + bars.fontMetrics().horizontalAdvance(words) <= width
    assert heights[0] < heights[1]
    first = bars.bars[0]
    parts = [tuple(replace(part, nbytes=n) for part in first.parts) for n in (1, 11 * GIB)]
    small, large = (list(bars._key(replace(first, parts=one), 400)) for one in parts)
    assert [row[:2] for row in small] == [row[:2] for row in large]  # nothing moves as sizes change


def test_clicking_a_part_shows_why(qtbot: QtBot, panel: Panel) -> None:
    panel.assert_shown()
    bars, why = panel.body.picture.bars, panel.body.details.why
    place = bars.part_area((0, 2)).center().toPoint()
    qtbot.mouseClick(bars, Qt.MouseButton.LeftButton, pos=place)
    assert panel.body.pages.currentWidget() is panel.body.details
    term = next(term for term in panel.plan().terms if term.name == "devices[0].graph")
    assert f"{term.value:,} bytes" in why.title.text()
    assert why.formula.text() == f"= {term.formula}"


def test_the_keyboard_reads_the_bars(qtbot: QtBot, panel: Panel) -> None:
    panel.state.replace_inputs(devices=TWO)
    panel.assert_shown()
    bars = panel.body.picture.bars
    bars.setFocus()
    qtbot.keyClick(bars, KEY.Key_Right)
    assert "First: KV cache" in bars.accessibleDescription()
    qtbot.keyClick(bars, KEY.Key_Down)
    assert "Second: KV cache" in bars.accessibleDescription()
    qtbot.keyClick(bars, KEY.Key_Return)
    assert panel.body.details.why.title.text().startswith("devices[1].kv_cache")


def test_what_is_too_much_has_a_pattern_and_words(panel: Panel) -> None:
    panel.state.replace_inputs(devices=(Device("0", "CUDA", 1 * GIB, name="Tiny"),))
    panel.state.set(num_gpu=20)
    plan = panel.assert_shown()
    bars = panel.body.picture.bars
    held = plan.gpus[0]
    assert bars.bars[0].over_bytes == plan.verdict.short[0] >= held.total - 1 * GIB > 0
    assert "too much" in bars.describe((0, 0))
    named = {part.kind: size for _, _, part, size in bars._key(bars.bars[0], bars.width())}
    assert named[Kind.RESERVED] == bytes_text(held.reserve.high)  # though there is no room for it
    area = bars._bar_area(0, bars.width())
    image = _image(bars)
    start = area.x() + area.width() * bars.bars[0].capacity / bars.bars[0].length  # type: ignore[operator]
    over = image.copy(int(start) + 3, int(area.top()) + 3, 40, int(area.height()) - 6)
    assert len(_colours(over)) >= 2  # a hatch, not a flat colour


def test_kinds_differ_in_texture_and_not_only_in_colour(panel: Panel) -> None:
    """Drawn without colour (all on grey) the filled kinds still differ."""
    pictures = set()
    for kind in (Kind.WEIGHTS, Kind.KV_CACHE, Kind.GRAPH, Kind.RESERVED):
        image = QImage(32, 32, QImage.Format.Format_RGB32)
        painter = QPainter(image)
        white, black = Qt.GlobalColor.white, Qt.GlobalColor.black
        fill_kind(painter, image.rect().toRectF(), kind, white, black)  # type: ignore[arg-type]
        painter.end()
        ground = _colours(image).most_common(1)[0][0]
        pictures.add(tuple(image.pixel(x, y) == ground for x in range(32) for y in range(32)))
    assert len(pictures) == 4


def test_layers_are_as_wide_as_their_bytes(panel: Panel) -> None:
    plan = panel.assert_shown()
    strip = panel.body.picture.strip
    total = sum(layer.nbytes for layer in strip.layers)
    room = strip.width()
    for number in (0, 31):
        share = strip.layers[number].nbytes / total
        assert abs(strip.layer_area(number).width() - room * share) < room / 500
    assert len(strip.layers) == plan.verdict.total_layers


def test_a_clicked_layer_is_told_and_a_told_one_is_marked(qtbot: QtBot, panel: Panel) -> None:
    panel.assert_shown()
    strip = panel.body.picture.strip
    place = strip.layer_area(7).center().toPoint()
    selection = panel.app.selection
    qtbot.mouseClick(strip, Qt.MouseButton.LeftButton, pos=place)
    assert selection.layer == 7
    assert "Layer 7 (blk.7)" in strip.accessibleDescription()
    panel.view.select_layer(3)
    assert selection.layer == 7  # no answer to an answer
    assert strip.current == 3
    qtbot.keyClick(strip, KEY.Key_Right)
    assert selection.layer == 4
    assert strip.describe(32).startswith("Layer 32 (output)")


def test_experts_on_the_cpu_are_said_of_layers_on_gpus(panel: Panel) -> None:
    first, second, *others = panel.assert_shown().layers
    strip = LayerStrip(panel.view)
    split = replace(second, device=0, is_split=True)
    for device, said in ((None, "1 and experts of 1"), (0, "experts of 1")):
        rest = (replace(layer, device=0) for layer in others)
        there = (replace(first, device=device), split, *rest)
        strip.show_layers(there, ("First",), None, "experts")
        assert strip.sentence().endswith(f" on GPUs, {said} on the CPU")
    assert "on First, experts of it on the CPU" in strip.describe(1)


def test_dragging_the_boundary_asks_for_gpu_layers(qtbot: QtBot, panel: Panel) -> None:
    panel.assert_shown()
    strip = panel.body.picture.strip
    start = round(strip.boundary_x())
    target = round(strip.layer_area(20).left())
    steps = [start + (target - start) * i // 8 for i in range(9)]
    y = round(strip.layer_area(0).center().y())
    drag(qtbot, strip, steps, y=y)
    assert panel.state.inputs.settings.num_gpu == 12
    plan = panel.assert_shown()
    assert plan.gpu_layers == 12
    assert plan.gpus[0].layers == range(20, 32)
    drag(qtbot, strip, [round(strip.boundary_x()), 40, 0], y=y)
    assert panel.assert_shown().gpu_layers == 33  # also the output layer
    panel.state.undo()
    assert panel.state.inputs.settings.num_gpu == 12  # each drag is one step
    panel.assert_shown()
    strip.setFocus()
    qtbot.keyClick(strip, KEY.Key_Left, Qt.KeyboardModifier.ControlModifier)
    assert panel.state.inputs.settings.num_gpu == 13


def test_a_boundary_that_is_hovered_shows_that_it_can_be_dragged(
    qtbot: QtBot, panel: Panel
) -> None:
    panel.assert_shown()
    strip = panel.body.picture.strip
    qtbot.mouseMove(strip, QPoint(round(strip.boundary_x()), 30))
    assert strip.cursor().shape() == Qt.CursorShape.SplitHCursor
    assert strip.hit(QPointF(-5, 0)) is None


def test_many_devices_scroll_and_do_not_push_the_rest_away(panel: Panel) -> None:
    many = tuple(Device(str(i), "CUDA", 2 * GIB, name=f"GPU {i}") for i in range(40))
    panel.state.replace_inputs(devices=many)
    panel.assert_shown()
    picture = panel.body.picture
    assert picture.height() < panel.view.height() / 2
    assert picture.bars.height() > 40 * picture.bars.row_height()


def test_tips_show_names_from_files_as_they_are() -> None:
    assert plain_tip("<b>a</b>\nb") == "<qt>&lt;b&gt;a&lt;/b&gt;<br>b</qt>"
    assert plain_tip("") == ""
