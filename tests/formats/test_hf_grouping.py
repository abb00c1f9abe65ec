"""Keys of a model end up in one place each, whatever there is of them."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.formats.model import ProblemLog
from explorer.formats.quantized.declaration import Declaration
from explorer.formats.quantized.grouping import ATTACHED, ORPHANS, RULES, Grouped, group_members
from explorer.formats.quantized.modules import Member
from explorer.formats.quantized.patterns import bounded_work
from explorer.formats.tensors import Extent, Spec
from explorer.quantization import TENSOR_TYPES
from explorer.sources import MemorySource

METHODS = ("", "gptq", "awq", "fp8", "compressed-tensors")
GPTQ = {"qweight": ("I32", (8, 64)), "qzeros": ("I32", (2, 8)), "scales": ("F16", (2, 64))}
SOURCE = MemorySource(bytes(1 << 16), Path("model.safetensors"))
SUFFIXES = sorted({suffix for suffix, _ in RULES} | set(ATTACHED) | set(ORPHANS))
SHAPES = st.lists(st.sampled_from((0, 1, 2, 8, 16, 32, 64)), max_size=3).map(tuple)
TYPES = ("I32", "F16", "BF16", "F32", "U8", "I8", "I64", "F8_E4M3", "F8_E8M0")
DECLARED = st.fixed_dictionaries(
    {},
    optional={
        "bits": st.sampled_from((2, 3, 4, 8, -1, True, "4", 1 << 70)),
        "group_size": st.sampled_from((32, 64, 128, -1, 0, None, 1.5)),
        "weight_block_size": st.sampled_from(([128, 128], [1, 0], [-1], "x", [True, 2])),
        "config_groups": st.sampled_from(({}, [], {"a": None}, {"a": {"weights": {"bits": 4}}})),
        "dynamic": st.sampled_from(({"-:.*": {}}, {"([a-z.]+)+!": {"bits": 8}}, [1], {"x": 3})),
    },
)


def member(name: str, dtype: str, shape: tuple[int, ...]) -> Member:
    kind, count = TENSOR_TYPES[dtype], 1
    for length in shape:
        count *= length
    nbytes = count * kind.block_bytes
    return Member(name, Spec(kind, shape, count, nbytes), Extent(SOURCE, 0, nbytes), None)


def grouped_of(members: list[Member], declared: Declaration | None = None) -> tuple[Grouped, Any]:
    log = ProblemLog()
    by_name = {one.name: one for one in members}
    with bounded_work():
        found = group_members(by_name, declared or Declaration(), {}, log)
    return found, log.problems()


@st.composite
def stored_tensors(draw: st.DrawFn) -> list[Member]:
    keys = st.tuples(st.sampled_from(("a.b", "a.c", "a")), st.sampled_from((*SUFFIXES, ".weight")))
    names = draw(st.lists(keys.map("".join), unique=True, max_size=12))
    return [member(name, draw(st.sampled_from(TYPES)), draw(SHAPES)) for name in names]


@settings(max_examples=300, deadline=None)
@given(stored_tensors(), DECLARED, st.sampled_from(METHODS))
def test_every_key_is_in_one_place(
    members: list[Member], fields: dict[str, Any], method: str
) -> None:
    found, _ = grouped_of(members, Declaration(method, "config.json", fields))
    parts = [part.name for weight in found.weights.values() for part in weight.parts.values()]
    attached = [one.name for many in found.attached.values() for one in many]
    assert len(parts) + len(attached) == len({*parts, *attached})
    assert found.used == {*parts, *attached}
    assert found.used <= {one.name for one in members}


def test_what_is_missing_is_told_once_for_all() -> None:
    names = [f"model.layers.{layer}.mlp.up_proj" for layer in range(300)]
    kept = [name for name in GPTQ if name != "qzeros"]
    members = [member(f"{name}.{part}", *GPTQ[part]) for name in names for part in kept]
    found, problems = grouped_of(members)
    assert not found.weights
    assert [problem.where for problem in problems] == [f"{names[0]}.qweight"]
    assert "its qzeros is missing (299 more like it)" in problems[0].what


def test_a_companion_alone_is_told() -> None:
    _, problems = grouped_of([member("a.b.qzeros", *GPTQ["qzeros"])])
    assert "other parts of its weight are missing" in problems[0].what


def test_a_plain_weight_beside_a_quantized_one_is_kept() -> None:
    members = [member(f"a.{part}", *about) for part, about in GPTQ.items()]
    found, problems = grouped_of([*members, member("a.weight", "F16", (64, 64))])
    assert found.used == {one.name for one in members}
    assert "both are kept" in problems[0].what


def test_methods_that_are_not_decoded_are_listed_without_a_problem() -> None:
    members = [member(f"a.{part}", *about) for part, about in GPTQ.items()]
    for declared in (Declaration("aqlm", "config.json"), Declaration("exl2", "config.json")):
        assert grouped_of(members, declared) == (Grouped(), ())
    found, problems = grouped_of([*members, member("a.forward_hadamard_matrix", "F16", (64, 64))])
    assert (found.weights, problems) == ({}, ())


def test_shapes_win_over_what_is_declared_and_it_is_told() -> None:
    members = [member(f"a.{part}", *about) for part, about in GPTQ.items()]
    fields = {"bits": 8, "group_size": 128}
    found, problems = grouped_of(members, Declaration("gptq", "config.json", fields))
    layout = found.weights["a.qweight"].layout
    assert (layout.bits, layout.group_size, layout.shape) == (4, 32, (64, 64))
    assert "8 bits, the shapes say 4" in problems[0].what
    assert "group_size of 128, the shapes say 32" in problems[0].what


def test_rules_of_modules_are_taken_before_the_general_one() -> None:
    members = [member(f"m.{n}.{part}", *about) for n in "ab" for part, about in GPTQ.items()]
    rules = {r"+:.*\.a$": {"group_size": 32}, r"(x+x+)+y": {"bits": 3}}
    fields = {"bits": 4, "group_size": 48, "dynamic": rules}
    found, problems = grouped_of(members, Declaration("gptq", "config.json", fields))
    assert found.weights["m.a.qweight"].layout.group_size == 32
    assert found.weights["m.b.qweight"].layout.group_size == 48  # two groups, the last is short
    assert problems == ()


def test_hostile_rules_take_no_time() -> None:
    members = [
        member(f"model.layers.{n}.up.{part}", *about)
        for n in range(2000)
        for part, about in GPTQ.items()
    ]
    rules = {f"(a|a?)*{n}" * 20: {"bits": 4} for n in range(500)}
    fields = {"bits": 4, "group_size": 16, "dynamic": rules}
    start = time.process_time()
    found, _ = grouped_of(members, Declaration("gptq", "config.json", fields))
    assert len(found.weights) == 2000
    assert time.process_time() - start < 5
