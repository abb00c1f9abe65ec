"""Whether models fit a machine, and the largest context with the layers that do."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.formats import open_model
from explorer.planner import Device, Host, Hyperparameters, Settings
from explorer.planner.advice import automatic_placement, largest_held, solve
from explorer.planner.engines.llama_cpp import compute
from explorer.planner.engines.llama_cpp.engine import LLAMA_CPP
from explorer.planner.engines.ollama import OLLAMA
from explorer.planner.inputs import PlanInputs
from explorer.planner.plans import Level, Verdict
from explorer.planner.request import PlanRequest
from explorer.present.fits import ModelFit, Target, fit_of, fit_statement, version_at
from explorer.present.suggestions import advice_changes, suggestions
from tests.helpers.ollama_store import OllamaStore
from tests.helpers.small_gguf import SmallGguf
from tests.helpers.sparse_models import Shape

GIB = 1 << 30
HOST = Host(64 * GIB, total=64 * GIB)


def gpu(size: float, number: int = 0) -> Device:
    return Device(str(number), "CUDA", int(size * GIB), name="NVIDIA L4")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Some 4 GiB in 33 layers; 128 KiB of cache for each token."""
    return Shape().write(tmp_path_factory.mktemp("models") / "eight.gguf")


def test_all_of_it_on_a_large_gpu_with_the_trained_context(model: Path) -> None:
    found = version_at(model, Target((gpu(48),), HOST)).fit
    assert (found.level, found.text, found.context_text) == (Level.FITS, "yes", "131,072")
    assert found.verdict is not None
    assert (found.verdict.gpu_layers, found.verdict.total_layers) == (33, 33)
    assert found.engine == "llama.cpp"


@pytest.mark.parametrize("devices", [(gpu(8),), (gpu(5), gpu(6, 1))])
def test_the_largest_context_is_the_answer_of_the_planner(
    model: Path, devices: tuple[Device, ...]
) -> None:
    found = version_at(model, Target(devices, HOST)).fit
    with open_model(model) as opened:
        request = PlanRequest(Hyperparameters.from_model(opened), Settings(), devices, HOST, {})
    assert found.text == "yes"
    assert found.largest_context == solve("context", request, LLAMA_CPP).value
    assert 4096 < (found.largest_context or 0) < 131072


@pytest.fixture(scope="module")
def some_models(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Models with and without experts, of 0.7 to 14 GiB."""
    folder = tmp_path_factory.mktemp("some")
    shapes = (
        Shape(blocks=6, vocabulary=200),
        Shape(blocks=20, kv_heads=32, context=8192, vocabulary=200),
        Shape(blocks=12, experts=8, feed_forward=2048, vocabulary=200),
        Shape(blocks=12, experts=8, context=5000, vocabulary=200),
    )
    return [shape.write(folder / f"{i}.gguf") for i, shape in enumerate(shapes)]


@given(data=st.data())
def test_there_is_one_largest_context_whoever_is_asked_and_whatever_is_set(
    some_models: list[Path], data: st.DataObject
) -> None:
    sizes = data.draw(st.lists(st.integers(1, 15), max_size=2))
    devices = tuple(gpu(size, number) for number, size in enumerate(sizes))
    path = data.draw(st.sampled_from(some_models))
    engine = data.draw(st.sampled_from([LLAMA_CPP, OLLAMA]))
    cache = data.draw(st.sampled_from([None, "q8_0"]))
    context = data.draw(st.sampled_from([None, 512, 4096, 100_000]))
    listed = data.draw(st.sampled_from([None, 4096, 100_000]))  # in the list of the library
    inputs = PlanInputs(Settings(context=listed, kv_cache_type=cache), profile=engine.name)
    with open_model(path) as opened:
        shown = fit_of(opened, Target(devices, HOST), asked=inputs)
        asked = Settings(context=context, kv_cache_type=cache)
        request = PlanRequest(Hyperparameters.from_model(opened), asked, devices, HOST, {})
    answer = solve("context", request, engine)
    assert shown.largest_context == answer.value  # the library, and the planner's question
    if answer.value is None:
        return
    held = engine.plan(request.asking(**advice_changes(answer)))
    assert not held.verdict.short
    strip = [layer.device is not None for layer in held.layers]
    assert sum(strip) == held.verdict.gpu_layers  # the picture, and the sentence
    assert sum(layer.is_split for layer in held.layers) == held.verdict.expert_layers


def test_experts_on_the_cpu_do_not_hide_the_largest_context(some_models: list[Path]) -> None:
    with open_model(some_models[3]) as opened:
        h = Hyperparameters.from_model(opened)
    request = PlanRequest(h, Settings(), (gpu(8),), HOST, {})
    answer = solve("context", request, LLAMA_CPP)
    assert answer.value == version_at(some_models[3], Target((gpu(8),), HOST)).fit.largest_context
    assert isinstance(answer.value, int)
    assert not answer.also  # nothing is placed that the answer does not name


def test_a_part_of_it_with_the_largest_context_that_can_be_asked_for(model: Path) -> None:
    """Layers go to main memory as the context grows, until that is too small."""
    target = Target((gpu(3.5),), Host(9 * GIB))
    found = version_at(model, target).fit
    assert found.verdict is not None
    layers = found.verdict.gpu_layers
    assert 0 < layers < 33
    assert (found.level, found.text) == (Level.PARTLY, f"partly, {layers} of 33 layers")
    assert found.context_text.startswith(f"{found.largest_context:,} with ")
    context = found.largest_context
    assert context is not None
    with open_model(model) as opened:
        h = Hyperparameters.from_model(opened)
    for tokens, fits in ((context, True), (context + 256, False)):
        plan = LLAMA_CPP.plan(
            PlanRequest(h, Settings(context=tokens), target.devices, target.host, {})
        )
        assert (not plan.verdict.short) == fits


def test_all_models_are_planned_with_one_context_and_the_largest_names_its_layers(
    model: Path, some_models: list[Path]
) -> None:
    asked = Target((gpu(8),), HOST, settings=Settings(context=100_000))
    found = version_at(model, asked).fit
    assert found.verdict is not None
    layers = found.verdict.gpu_layers
    assert 0 < layers < 33
    assert found.largest_context == version_at(model, Target((gpu(8),), HOST)).fit.largest_context
    assert found.context_text == f"{found.largest_context:,} with all layers"
    said = f"It fits partly on L4 with 100,096 tokens: {layers} of 33 layers. Up to "
    assert fit_statement(found, asked).startswith(said)
    assert fit_statement(found, asked).endswith(
        f"{found.largest_context:,} tokens with all layers."
    )
    short = version_at(
        some_models[1], Target((gpu(48),), HOST, settings=Settings(context=100_000))
    ).fit
    assert (short.level, short.context_text) == (Level.FITS, "8,192")  # it was trained for these


def test_experts_on_the_cpu(tmp_path: Path) -> None:
    path = Shape(blocks=8, experts=8).write(tmp_path / "experts.gguf")
    found = version_at(path, Target((gpu(4.5),), HOST)).fit
    assert found.verdict is not None
    assert found.verdict.gpu_layers == found.verdict.total_layers == 9
    assert found.text == f"partly, experts of {found.verdict.expert_layers} of 9 layers on the CPU"
    assert found.largest_context is not None


def test_without_a_gpu_main_memory_decides(model: Path) -> None:
    found = version_at(model, Target((), HOST)).fit
    assert (found.level, found.text) == (Level.FITS, "yes, on the CPU")
    assert found.largest_context == 131072
    none = version_at(model, Target((), Host(2 * GIB))).fit
    assert (none.level, none.text, none.context_text) == (Level.NOT, "no", "")
    assert "main memory" in none.sentence


def test_main_memory_that_is_short_of_the_program_s_own_context_may_hold_a_shorter_one(
    model: Path,
) -> None:
    """llama.cpp's own fit does not count weights that it repacks, and takes too many tokens."""
    found = version_at(model, Target((), Host(8 * GIB, total=8 * GIB))).fit
    assert (found.level, found.state) == (Level.FITS, "Fits, on the CPU")
    assert 16_384 < (found.largest_context or 0) < 65_536
    most = f"Fits with at most {found.context_text} tokens. What the program takes by itself does "
    assert found.sentence.startswith(f"{most}not fit: ")
    smaller = version_at(
        model, Target((), Host(3 * GIB, total=3 * GIB))
    ).fit  # weights alone are more
    assert (smaller.level, smaller.largest_context) == (Level.NOT, None)


def test_what_lies_in_ollama_s_store_is_planned_as_ollama_starts_it(
    model: Path, tmp_path: Path
) -> None:
    store = OllamaStore(tmp_path / "models")
    small = Shape(blocks=2, width=256, feed_forward=512, heads=4, kv_heads=2).write(tmp_path / "s")
    path = store.manifest(
        [store.layer("model", small.read_bytes())], "registry.ollama.ai/library/tiny/latest"
    )
    found = version_at(path, Target((gpu(8),), HOST, {"OLLAMA_CONTEXT_LENGTH": "2048"})).fit
    assert (found.engine, found.text, found.largest_context) == ("ollama", "yes", 131072)


def test_the_most_layers_are_those_with_which_main_memory_holds_the_rest(model: Path) -> None:
    with open_model(model) as opened:
        h = Hyperparameters.from_model(opened)
    host = Host(3 * GIB)  # too little for what one layer on the GPU would leave
    request = PlanRequest(h, Settings(context=8192), (gpu(3.5),), host, {})
    answer = solve("gpu-layers", request, LLAMA_CPP)
    assert isinstance(answer.value, int)
    assert 10 < answer.value < 33
    assert "NVIDIA L4" in answer.limited_by
    poor = replace(request, host=Host(GIB >> 2))
    none = solve("gpu-layers", poor, LLAMA_CPP)
    assert none.value is None
    assert none.limited_by.startswith(f"with {answer.value} layers on GPUs, ")


def test_a_placement_that_was_asked_for_is_taken_back_where_that_helps(model: Path) -> None:
    with open_model(model) as opened:
        h = Hyperparameters.from_model(opened)
    asked = Settings(context=8192, num_gpu=32, cpu_moe_layers=2)
    request = PlanRequest(h, asked, (gpu(3.5),), HOST, {})
    freed = {"num_gpu": None, "cpu_moe_layers": None}
    assert automatic_placement(request, LLAMA_CPP) == freed
    found = suggestions(request, LLAMA_CPP, lambda: None)
    assert found[0].button == "Place layers automatically"
    assert dict(found[0].changes) == freed
    few = replace(request, settings=replace(asked, num_gpu=2))
    assert automatic_placement(few, LLAMA_CPP) == {}  # nothing is short
    poor = replace(request, host=Host(GIB >> 2))
    assert automatic_placement(poor, LLAMA_CPP) == {}


def test_what_cannot_be_planned_says_why(tmp_path: Path) -> None:
    target = Target((gpu(8),), HOST)
    names = "junk", "tokens", "odd", "bare"
    junk, tokens, odd, bare = (tmp_path / f"{name}.gguf" for name in names)
    junk.write_bytes(b"GGUF" + bytes(3))
    keys, other_keys = ([("general.architecture", name)] for name in ("llama", "lumina"))
    tokens.write_bytes(SmallGguf(keys=keys).write())
    data = bytes(128)
    weights = [("a.weight", (32,), 0, 0)]
    odd.write_bytes(SmallGguf(keys=other_keys, tensors=weights, data=data).write())
    bare.write_bytes(SmallGguf(keys=keys, tensors=weights, data=data).write())
    for path, word in (
        (junk, "Cannot be read"),
        (tokens, "No weights"),
        (odd, "Not a language model"),
        (bare, "No plan"),
        (tmp_path / "none.gguf", "Cannot be read"),
    ):
        found = version_at(path, target).fit
        assert found.level is found.order is found.largest_context is None
        assert (found.state, found.text) == (word, word.lower())
        assert found.sentence
    assert "nothing to plan" in version_at(odd, target).fit.sentence
    assert "number of layers (block_count)" in version_at(bare, target).fit.sentence


def test_a_damaged_model_does_not_fit_however_much_memory_there_is(
    model: Path, tmp_path: Path
) -> None:
    cut = tmp_path / "cut.gguf"
    with model.open("rb") as whole:  # 4 GiB
        cut.write_bytes(whole.read(1 << 20))
    target = Target((gpu(48),), HOST)
    found = version_at(cut, target).fit
    assert (found.level, found.state, found.text) == (None, "Damaged", "damaged")
    assert found.damaged
    assert "cut short" in found.sentence
    assert fit_statement(found, target) == "It is damaged and cannot be loaded as it is."


def test_better_fits_sort_higher() -> None:
    rows = [
        ModelFit(found, "")
        for found in (
            Verdict(Level.NOT, 0, 49),
            Verdict(Level.PARTLY, 28, 49),
            Verdict(Level.PARTLY, 30, 49),
            Verdict(Level.PARTLY, 49, 49, expert_layers=10),
            Verdict(Level.FITS, 49, 49),
        )
    ]
    orders = [row.order for row in rows]
    assert orders == sorted(orders, key=lambda order: -1 if order is None else order)
    assert len(set(orders)) == len(orders)


def test_a_check_that_raises_ends_it(model: Path) -> None:
    def stop() -> None:
        raise InterruptedError

    with pytest.raises(InterruptedError):
        version_at(model, Target((gpu(8),), HOST), stop)


@given(
    most=st.integers(1, 4096),
    slope=st.integers(0, 1000),
    bend=st.integers(0, 4096),
    steep=st.integers(0, 5000),
    free=st.integers(0, 1 << 22),
    refused=st.integers(1, 5000),
)
def test_the_largest_value_is_that_of_trying_all(
    *, most: int, slope: int, bend: int, steep: int, free: int, refused: int
) -> None:
    calls = 0

    def left(value: int) -> int | None:
        if value >= refused:
            return None
        return free - slope * value - steep * max(0, value - bend)

    def room(value: int) -> int | None:
        nonlocal calls
        calls += 1
        assert 1 <= value <= most
        return left(value)

    def held(value: int) -> bool:
        found = left(value)
        return found is not None and found >= 0

    expected = max((value for value in range(1, most + 1) if held(value)), default=0)
    assert largest_held(room, most) == expected
    assert calls <= 60
    known = max(1, expected // 2)
    if expected and (at := left(known)) is not None:
        assert largest_held(room, most, (known, at)) == expected


def test_a_search_ends_soon_where_even_the_least_has_no_room() -> None:
    asked: list[int] = []

    def room(value: int) -> int:
        asked.append(value)
        return -value

    assert largest_held(room, 512) == 0
    assert asked == [512, 16, 1]


@pytest.mark.parametrize("size", [2, 3.5, 8])
def test_few_graphs_are_built_to_say_whether_a_model_fits(
    size: float, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built: set[Any] = set()

    def sizes(header: Any, batch: Any, placement: Any, blocks: Any) -> list[int]:
        built.add((batch.cells, placement.key))  # of each, batches of several sizes
        return found(header, batch, placement, blocks)

    found = compute._sizes
    monkeypatch.setattr(compute, "_sizes", sizes)
    assert version_at(model, Target((gpu(size),), HOST)).fit.largest_context
    assert 3 <= len(built) <= 9


def test_speed_is_a_range_with_what_slows_it(model: Path) -> None:
    card = replace(gpu(8), name="NVIDIA GeForce RTX 4070")
    whole = version_at(model, Target((card,), HOST)).fit.speed
    part = version_at(model, Target((replace(card, free=int(3.5 * GIB)),), HOST)).fit.speed
    assert whole is not None
    assert part is not None
    assert part.most < whole.most
    assert whole.reason == "Each token reads 3.66 GiB from RTX 4070 at 504 GB/s."
    assert part.reason.split(" cost ")[0].endswith("layers on the CPU")
    assert part.reason.endswith(" tokens/s.")
    slower = Target((card,), HOST, bandwidths={card.name: 252_000_000_000})
    halved = version_at(model, slower).fit.speed
    assert halved is not None
    assert halved.most < 0.6 * whole.most
    assert version_at(model, Target((), Host(2 * GIB))).fit.speed is None  # it does not fit
