"""Which quants belong together, and which of them is recommended."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from explorer.planner import Settings
from explorer.planner.devices import CPU
from explorer.planner.plans import Level, Verdict
from explorer.planner.speed import Bandwidth, speed_bound
from explorer.present.fits import ModelFit, Target, Version
from explorer.present.quants import address_of, quants_of, recommend, stem_of
from explorer.present.speed import Speed
from explorer.present.tables.quants import ListedModel
from explorer.sources.remote.addresses import parse_address
from explorer.stores.entries import Entry

AT = Target((), None, settings=Settings(context=8192))


@pytest.mark.parametrize(
    ("name", "stem"),
    [
        ("unsloth/Qwen3-8B-GGUF/Qwen3-8B-Q4_K_M.gguf", "qwen3-8b"),
        ("unsloth/Qwen3-8B-GGUF/Qwen3-8B-UD-IQ2_XXS.gguf", "qwen3-8b"),
        ("a/b/Qwen3-8B-BF16-00001-of-00002.gguf", "qwen3-8b"),
        ("Qwen/Qwen3-8B", "qwen3-8b"),
        ("qwen3:8b-q8_0", "qwen3:8b"),
        ("qwen3:8b", "qwen3:8b"),
        ("ggml-model-Q4_0.gguf", ""),
    ],
)
def test_quants_of_a_model_are_called_alike_but_for_their_types(name: str, stem: str) -> None:
    assert stem_of(name) == stem


def entry(name: str) -> Entry:
    return Entry(name, Path("/models") / name, "gguf", 1, None)


def test_quants_of_other_models_are_not_listed() -> None:
    entries = [
        entry(f"o/m-GGUF/{name}") for name in ("m-Q4_K_M.gguf", "m-Q8_0.gguf", "n-Q4_0.gguf")
    ]
    found = quants_of(entries[0].path, entries)
    assert [one.name for one in found] == ["m-Q4_K_M.gguf", "m-Q8_0.gguf"]
    unlisted = quants_of(Path("/x/m-Q5_0.gguf"), entries)
    assert len(unlisted) == 3
    plain = [entry(f"{folder}/ggml-model-Q4_0.gguf") for folder in "ab"]
    assert len(quants_of(plain[0].path, plain)) == 1  # nothing says that they are one model


def test_the_web_is_asked_where_a_name_says_where_a_model_came_from() -> None:
    here = Path("/models/x")
    assert str(address_of(here, "owner/repo/m-Q4_0.gguf")) == "hf://owner/repo"
    assert str(address_of(here, "qwen3:8b", of_ollama=True)) == "ollama://qwen3"
    assert address_of(here, "m.gguf") is None
    assert address_of(here, "my models/of mine/m.gguf") is None
    remote = parse_address("hf://owner/repo/m-Q4_0.gguf")
    assert str(address_of(remote, "")).startswith("hf://owner/repo")


def choice(
    name: str, bits: float, level: Level | None, speed: float = 0, kind: str = "dense"
) -> ListedModel:
    layers = {None: 0, Level.NOT: 0, Level.PARTLY: 20, Level.FITS: 33}[level]
    bound = speed_bound({CPU: 1000}, {CPU: Bandwidth(CPU, round(1000 * speed), "")}, 0)
    bound = replace(bound, kind=kind)
    verdict = None if level is None else Verdict(level, layers, 33)
    fit = ModelFit(verdict, "", speed=Speed(bound, bound) if speed else None)
    return ListedModel(name, Path(name), 1, Version(1, bits, name, fit))


FITS, PARTLY, NOT = Level.FITS, Level.PARTLY, Level.NOT


@pytest.mark.parametrize(
    ("choices", "place", "words"),
    [
        (
            [choice("q4", 4.8, FITS, 100), choice("q6", 6.6, FITS, 80), choice("q8", 8.5, PARTLY)],
            1,
            "Take q6. It has the most bits per weight (6.600) of those that fit with 8k tokens, "
            "f16 cache. About 32–76 tokens/s.",
        ),
        ([choice("q8", 8.5, FITS), choice("f16", 16.0, FITS)], 0, "More gain next to nothing"),
        ([choice("bf16", 16.0, FITS), choice("f32", 32.0, FITS)], 0, "Take bf16. "),
        ([choice("q4", 4.8, FITS), choice("mmproj", 16.0, None)], 0, "Take q4. "),
        ([choice("one", 4.8, FITS)], 0, "Take one. It fits with 8k tokens, f16 cache."),
        ([choice("vllm", 16.0, FITS, 80, "")], 0, "f16 cache. At most 80 tokens/s."),
        (
            [choice("q4", 4.8, PARTLY, 20), choice("q2", 2.5, PARTLY, 30), choice("q8", 8.5, NOT)],
            1,
            "None of them fits whole with 8k tokens, f16 cache. Take q2, which runs fastest with "
            "20 of 33 layers. About 12–28 tokens/s.",
        ),
        (
            [choice("q2", 2.8, FITS, 200), choice("q4", 4.8, PARTLY, 60), choice("q6", 6.6, NOT)],
            1,
            "Take q4: it fits partly (20 of 33 layers) with 8k tokens, f16 cache and runs at about "
            "24–57 tokens/s. q2 fits whole, but has 2.800 bits per weight, which costs much",
        ),
        ([choice("q2", 2.8, FITS, 200), choice("q4", 4.8, PARTLY, 20)], 0, "Take q2. "),  # too slow
        ([choice("q3", 3.6, FITS, 200), choice("q4", 4.8, PARTLY, 60)], 0, "Take q3. "),
        ([choice("q4", 4.8, None)] * 2, None, "There is no plan for any of them."),
        ([choice("q4", 4.8, NOT)], None, "It does not fit with 8k tokens, f16 cache."),
    ],
)
def test_the_recommendation_names_one_and_why(
    choices: list[ListedModel], place: int | None, words: str
) -> None:
    found = recommend(choices, AT)
    assert found is not None
    assert found.place == place
    assert words in found.sentence


def test_nothing_is_recommended_before_all_headers_are_read() -> None:
    assert recommend([choice("q4", 4.8, FITS), ListedModel("q8", Path("q8"), 1)], AT) is None
