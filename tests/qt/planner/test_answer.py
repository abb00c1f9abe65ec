"""The answer: its words, the changes it suggests, the questions, and what a screen reader hears."""

from __future__ import annotations

import re

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QAccessible
from pytestqt.qtbot import QtBot

from explorer.planner import Device, Host, Hyperparameters, Settings
from explorer.planner.advice import solve
from explorer.planner.engines.llama_cpp.engine import LLAMA_CPP
from explorer.planner.engines.ollama_013.engine import OLLAMA_013
from explorer.planner.request import PlanRequest
from explorer.present.plan import Kind
from explorer.present.suggestions import QUESTION_TEXTS, suggestions
from explorer.qt.document import Document
from explorer.text import bytes_text
from tests.qt.planner.plan_models import GIB, Panel

SMALL = (Device("0", "CUDA", 5 * GIB, name="Small GPU"),)


def _sentence(panel: Panel) -> str:
    return panel.body.answer.sentence.text()


def _ways(panel: Panel) -> str:
    """Return what is said below the answer: what would make the model fit."""
    return panel.body.answer.ways.text()


def test_says_that_it_fits_and_what_stays_free(panel: Panel) -> None:
    plan = panel.assert_shown()
    (held,) = plan.gpus
    free = (held.room or 0) / GIB
    assert _sentence(panel) == f"✔  Fits: 33 of 33 layers on Test GPU, {free:.2f} GiB free."
    assert not panel.body.answer._found


def test_what_stays_free_is_what_the_bars_say(panel: Panel) -> None:
    for profile in ("llama.cpp", OLLAMA_013.name):
        panel.state.replace_inputs(profile=profile)
        panel.settle()
        (gpu, _) = panel.body.picture.bars.bars
        assert f"{bytes_text(gpu.nbytes(Kind.FREE))} free." in _sentence(panel), profile


def test_says_what_would_make_it_fit_and_does_it(qtbot: QtBot, panel: Panel) -> None:
    panel.state.replace_inputs(devices=SMALL)
    panel.state.set(context=65_536)
    panel.settle()
    assert "stay on the CPU" in _sentence(panel)
    answer = panel.body.answer
    qtbot.waitUntil(lambda: bool(panel.offered))
    panel.settle()
    request = panel.state.inputs.request(panel.state.model.h, {})
    largest = solve("context", request, OLLAMA_013).value
    assert f"It fits at {largest:,} tokens" in _ways(panel)
    first = panel.offered[0]
    assert first.text() == f"Use {largest:,} tokens"
    qtbot.mouseClick(first, Qt.MouseButton.LeftButton)
    assert panel.assert_shown().fully_offloaded
    assert panel.plan().used("context") == largest
    assert not answer._found
    panel.state.undo()
    assert panel.state.inputs.settings.context == 65_536


def test_a_suggested_cache_type_brings_flash_attention_with_it(qtbot: QtBot, panel: Panel) -> None:
    panel.state.replace_inputs(devices=(Device("0", "CUDA", 9 * GIB),))
    panel.state.set(context=40_000)
    panel.settle()
    if panel.plan().fully_offloaded:
        pytest.fail("the case is to be one that does not fit")
    qtbot.waitUntil(lambda: any("cache" in b.text() for b in panel.offered))
    button = next(b for b in panel.offered if "cache" in b.text())
    button.click()
    plan = panel.assert_shown()
    assert plan.fully_offloaded
    assert plan.used("flash_attention")
    assert plan.used("kv_cache_type") in button.text()


def test_says_that_no_single_change_helps(qtbot: QtBot, panel: Panel) -> None:
    panel.state.replace_inputs(devices=(Device("0", "CUDA", 1 * GIB),))
    qtbot.waitUntil(lambda: "alone makes it fit" in _ways(panel))
    panel.settle()


def test_shows_a_refusal_and_draws_what_is_short(panel: Panel) -> None:
    panel.state.replace_inputs(devices=())
    panel.state.replace_inputs(host=Host(1 * GIB))
    panel.settle()
    assert "Ollama would refuse to load it" in _sentence(panel)
    assert panel.body.picture.bars.bars[-1].over_bytes > 0


def test_questions_are_answered_and_applied(qtbot: QtBot, panel: Panel) -> None:
    panel.state.set(flash_attention=True)
    panel.settle()
    answer = panel.body.answer
    for what in ("context", "parallel", "kv-cache-type", "gpu-layers"):
        answer.questions[what].trigger()
        title = QUESTION_TEXTS[what].title
        qtbot.waitUntil(lambda start=f"{title}: ": answer.ways.text().startswith(start))
        request = panel.state.inputs.request(panel.state.model.h, {})
        advice = solve(what, request, OLLAMA_013)
        shown = f"{advice.value:,}" if isinstance(advice.value, int) else str(advice.value)
        panel.settle()
        assert f": {shown}." in answer.ways.text()
        name = {"kv-cache-type": "kv_cache_type", "gpu-layers": "num_gpu"}.get(what, what)
        held = panel.plan().used(name)
        assert len(panel.offered) == (held != advice.value)  # what holds already has no button
        for button in panel.offered:
            button.click()
            assert getattr(panel.state.inputs.settings, name) == advice.value
            panel.assert_shown()
            if what != "context":  # it was an answer to other settings
                assert not answer.ways.text().startswith(title)
            panel.state.undo()
            panel.settle()


def test_the_largest_context_is_not_shown_over_the_answer_to_a_question(panel: Panel) -> None:
    answer = panel.body.answer
    panel.state.set(flash_attention=True)
    panel.state.flush()
    answer._search_delay.stop()
    answer._start_search()
    answer.questions["parallel"].trigger()
    panel.settle()
    assert answer.ways.text().startswith(QUESTION_TEXTS["parallel"].title)


def test_a_question_is_dropped_when_the_settings_change(panel: Panel) -> None:
    answer = panel.body.answer
    answer.questions["parallel"].trigger()
    panel.state.set(context=8192)
    panel.settle()
    assert not answer.ways.text().startswith(QUESTION_TEXTS["parallel"].title)


def test_the_largest_context_is_said_without_a_question(qtbot: QtBot, panel: Panel) -> None:
    answer = panel.body.answer
    request = panel.state.inputs.request(panel.state.model.h, {})
    value = solve("context", request, OLLAMA_013).value
    qtbot.waitUntil(lambda: f": {value:,}." in answer.ways.text())
    assert panel.offered[0].text() == f"Use {value:,} tokens"
    panel.offered[0].click()
    assert panel.state.inputs.settings.context == value


def test_nothing_below_the_answer_moves_as_lines_come_and_go(qtbot: QtBot, panel: Panel) -> None:
    answer, picture = panel.body.answer, panel.body.picture
    qtbot.waitUntil(lambda: bool(answer.ways.text()))
    panel.settle()
    places = {picture.mapTo(panel.view, QPoint(0, 0)).y()}
    panel.state.set(context=65_536)
    panel.state.replace_inputs(devices=SMALL)
    panel.settle()
    places.add(picture.mapTo(panel.view, QPoint(0, 0)).y())  # the answer is still looked for
    qtbot.waitUntil(lambda: bool(panel.offered))
    panel.settle()
    places.add(picture.mapTo(panel.view, QPoint(0, 0)).y())
    panel.offered[0].click()
    panel.settle()
    places.add(picture.mapTo(panel.view, QPoint(0, 0)).y())
    assert len(places) == 1


def test_the_speed_stands_under_the_verdict_with_what_slows_it(qtbot: QtBot, panel: Panel) -> None:
    panel.state.replace_inputs(profile="llama.cpp")
    answer, name = panel.body.answer, "NVIDIA GeForce RTX 4070"
    panel.state.replace_inputs(devices=(Device("0", "CUDA", 12 * GIB, name=name),))
    panel.state.set(context=4096)
    qtbot.waitUntil(lambda: "tokens/s, at most" in answer.speed.text())
    assert "on the CPU" not in answer.speed.text()
    panel.state.apply({"num_gpu": 20})
    qtbot.waitUntil(lambda: "13 layers on the CPU cost " in answer.speed.text())
    most, lost, whole = map(int, re.findall(r"(?:at most|cost) (\d+)", answer.speed.text()))
    assert most + lost == whole
    panel.state.replace_inputs(devices=(Device("0", "CUDA", 12 * GIB, name="No such card"),))
    wanted = "Speed unknown: the bandwidth of No such card is not known."
    qtbot.waitUntil(lambda: answer.speed.text() == wanted)


def test_the_answer_is_announced_once_it_comes_to_rest(
    qtbot: QtBot, panel: Panel, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = panel.body.answer
    qtbot.waitUntil(lambda: answer._announced == _sentence(panel))
    told: list[str] = []
    answer.announced.connect(told.append)
    events: list[str] = []
    update = QAccessible.updateAccessibility

    def note(event: object) -> None:
        events.append(type(event).__name__)
        update(event)

    monkeypatch.setattr("explorer.qt.planner.panel.QtGui.QAccessible.updateAccessibility", note)
    for free in range(12, 4, -1):
        panel.state.replace_inputs(devices=(Device("0", "CUDA", free * GIB, name="Test GPU"),))
        panel.state.flush()
    with qtbot.waitSignal(answer.announced):
        pass
    panel.settle()
    qtbot.waitUntil(lambda: told[-1] == _sentence(panel))
    assert len(told) <= 2  # the verdict and what a search found, not one for each step on the way
    assert "QAccessibleAnnouncementEvent" in events


def test_llama_cpp_says_what_would_put_all_layers_on_the_gpu(qtbot: QtBot, panel: Panel) -> None:
    panel.state.replace_inputs(profile="llama.cpp")
    answer, state = panel.body.answer, panel.state
    state.replace_inputs(devices=(Device("0", "CUDA", 6 * GIB, name="Small"),))
    state.apply({"context": 65_536, "parallel": 4})
    panel.settle()
    qtbot.waitUntil(lambda: answer._searched)
    assert "layers stay on the CPU" in answer.sentence.text()
    found = panel.offered
    assert found
    texts = [button.text() for button in found]
    assert all(text.startswith(("Use ", "Turn ", "Put ")) for text in texts)
    for number in range(len(texts)):
        qtbot.mouseClick(panel.offered[number], Qt.MouseButton.LeftButton)
        panel.settle()
        plan = state.current.plan
        assert plan is not None
        assert plan.fully_offloaded, texts[number]
        assert not plan.verdict.short
        state.undo()
        panel.settle()
        qtbot.waitUntil(lambda: answer._searched)


def test_flash_attention_is_offered_where_it_is_the_reason(demo: Document) -> None:
    h = Hyperparameters.from_model(demo.model)
    settings = Settings(context=h.trained_context, parallel=1, flash_attention=False, reserve=0)
    for size in range(4, 64):
        gpu = Device("0", "CUDA", size << 20)
        request = PlanRequest(h, settings, (gpu,), Host(64 * GIB), {})
        buttons = [one.button for one in suggestions(request, LLAMA_CPP, lambda: None)]
        if "Turn flash attention on" in buttons:
            break
    assert buttons[0] == "Turn flash attention on"


def test_a_plan_that_needs_flash_attention_has_a_button_that_turns_it_on(
    qtbot: QtBot, panel: Panel
) -> None:
    panel.state.replace_inputs(profile="llama.cpp")
    answer, state = panel.body.answer, panel.state
    for devices in ((Device("0", "CUDA", 64 * GIB, name="Large"),), ()):
        state.replace_inputs(devices=devices)
        state.apply({"kv_cache_type": "q8_0", "flash_attention": False})
        panel.settle()
        qtbot.waitUntil(lambda: answer._searched)
        assert state.current.plan is None
        assert "flash attention" in answer.sentence.text()
        (button,) = panel.offered
        assert button.text() == "Turn flash attention on"
        qtbot.mouseClick(button, Qt.MouseButton.LeftButton)
        panel.settle()
        assert state.current.plan is not None
        assert state.inputs.settings.kv_cache_type == "q8_0"


def test_without_a_gpu_the_context_that_main_memory_holds_is_offered(
    qtbot: QtBot, panel: Panel
) -> None:
    panel.state.replace_inputs(profile="llama.cpp")
    answer, state = panel.body.answer, panel.state
    state.replace_inputs(devices=(), host=Host(free=64 * GIB))
    state.apply({"context": 65_536, "parallel": 4})
    panel.settle()
    plan = state.current.plan
    assert plan is not None
    assert not answer._found
    state.replace_inputs(host=Host(free=plan.total - (1 << 20)))
    panel.settle()
    qtbot.waitUntil(lambda: answer._searched)
    assert "too much for main memory" in answer.sentence.text()
    (button,) = panel.offered
    assert answer.ways.text() == f"It fits at {button.text().removeprefix('Use ')}."
    qtbot.mouseClick(button, Qt.MouseButton.LeftButton)
    panel.settle()
    plan = state.current.plan
    assert plan is not None
    assert not plan.main.short
    assert 2048 <= plan.used("context") < 65_536
