"""Keys of a model end up in one place each, whatever there is of them."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.errors import FormatError
from explorer.formats import open_model
from explorer.formats.model import Problem, ProblemLog, Severity
from explorer.formats.quantized.declaration import Declaration
from explorer.formats.quantized.grouping import ATTACHED, ORPHANS, RULES, Grouped, group_members
from explorer.formats.quantized.modules import Keys
from explorer.formats.tensors import Spec
from explorer.quantization import TENSOR_TYPES
from explorer.quantization.huggingface.layout import CompanionLayout
from tests.helpers.safetensors_writer import tensors_bytes
from tests.helpers.stopwatch import in_time

METHODS = ("", "gptq", "awq", "fp8", "compressed-tensors")
GPTQ = {"qweight": ("I32", (8, 64)), "qzeros": ("I32", (2, 8)), "scales": ("F16", (2, 64))}
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


class Member(NamedTuple):
    """A stored tensor: its name, its type and shape."""

    name: str
    spec: Spec


def member(name: str, dtype: str, shape: tuple[int, ...]) -> Member:
    kind, count = TENSOR_TYPES[dtype], math.prod(shape)
    return Member(name, Spec(kind, shape, count, count * kind.block_bytes))


def grouped_of(
    members: list[Member],
    declared: Declaration | None = None,
    content: Mapping[str, bytes] | None = None,
) -> tuple[Grouped, tuple[Problem, ...]]:
    """Group tensors; `content` is what those of a type hold, zeros else."""
    known = content or {}
    log = ProblemLog()
    rows = {one.name: row for row, one in enumerate(members)}
    specs = [one.spec for one in members]
    keys = Keys(
        rows,
        specs,
        lambda row: known.get(specs[row].type.name, bytes(specs[row].nbytes)),
        declared or Declaration(),
        {},
    )
    return group_members(keys, log), log.problems()


@st.composite
def stored_tensors(draw: st.DrawFn) -> list[Member]:
    keys = st.tuples(st.sampled_from(("a.b", "a.c", "a")), st.sampled_from((*SUFFIXES, ".weight")))
    names = draw(st.lists(keys.map("".join), unique=True, max_size=12))
    return [member(name, draw(st.sampled_from(TYPES)), draw(SHAPES)) for name in names]


@given(stored_tensors(), DECLARED, st.sampled_from(METHODS))
def test_every_key_is_in_one_place(
    members: list[Member], fields: dict[str, Any], method: str
) -> None:
    found, _ = grouped_of(members, Declaration(method, "config.json", fields))
    parts = [row for weight in found.weights.values() for row in weight.rows]
    attached = [row for weight in found.weights.values() for row in weight.attached]
    assert len(parts) + len(attached) == len({*parts, *attached})
    assert found.used == {*parts, *attached}
    assert found.used <= set(range(len(members)))


@given(stored_tensors(), DECLARED, st.sampled_from(METHODS))
def test_modules_that_are_alike_are_what_each_is_alone(
    members: list[Member], fields: dict[str, Any], method: str
) -> None:
    """Specs are shared by tensors that are alike, and then no rule is asked twice."""
    shared: dict[Any, Spec] = {}
    twice = [
        Member(name + one.name, shared.setdefault(one.spec[:2], one.spec))
        for name in ("x.", "y.")
        for one in members
    ]
    declared = Declaration(method, "config.json", fields)
    found, _ = grouped_of(twice, declared)
    second = {row - len(members): one for row, one in found.weights.items() if row >= len(members)}
    alone, _ = grouped_of([one._replace(name=f"y.{one.name}") for one in members], declared)
    assert second.keys() == alone.weights.keys()
    for row, one in second.items():
        other = alone.weights[row]
        assert (one.name, one.alike, len(one.attached)) == (
            other.name,
            other.alike,
            len(other.attached),
        )
        assert one.rows == tuple(part + len(members) for part in other.rows)


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
    assert "its qweight is missing" in problems[0].what


def test_a_plain_weight_beside_a_quantized_one_is_kept() -> None:
    members = [member(f"a.{part}", *about) for part, about in GPTQ.items()]
    found, problems = grouped_of([*members, member("a.weight", "F16", (64, 64))])
    assert found.used == {0, 1, 2}
    assert "Both are kept" in problems[0].what


FP8_EXPERTS: dict[str, tuple[str, tuple[int, ...]]] = {
    "experts.up": ("F8_E4M3", (2, 64, 32)),
    "experts.up_scale": ("F32", (2, 1, 32)),
}
FP4_EXPERTS: dict[str, tuple[str, tuple[int, ...]]] = {
    "experts.up": ("U8", (2, 64, 32)),
    "experts.up_weight_scale": ("F8_E4M3", (2, 64, 4)),
    "experts.up_weight_scale_2": ("F32", (2,)),
}


@pytest.mark.parametrize(
    ("method", "fields", "parts"),
    [
        ("aqlm", {}, GPTQ),
        ("", {}, {**GPTQ, "forward_hadamard_matrix": ("F16", (64, 64))}),
        ("vptq", {}, {"indices": ("I32", (1, 64, 8)), "centroids.weight": ("F16", (1, 64))}),
        ("eetq", {}, {"weight": ("I8", (64, 64)), "weight_scales": ("F16", (64,))}),
        ("", {}, {"weight": ("I8", (64, 64)), "weight_scales": ("F16", (64,))}),
        ("quark", {}, {"weight": ("U8", (64, 64)), "weight_scale": ("F32", (64, 1))}),
        ("gptq", {"checkpoint_format": "gptq_p"}, {**GPTQ, "qzeros": ("I32", (2, 10))}),
        ("awq", {"version": "gemv_fast"}, {**GPTQ, "qweight": ("I16", (16, 64))}),
        (
            "compressed-tensors",
            {"format": "marlin-24"},
            {"weight_packed": ("I32", (4, 128)), "scale_packed": ("F16", (1, 64))},
        ),
        (
            "compressed-tensors",
            {"format": "sparse-24-bitmask"},
            {"weight.compressed": ("BF16", (64, 32)), "weight.bitmask": ("U8", (64, 8))},
        ),
        ("fbgemm_fp8", {}, FP8_EXPERTS),
        ("modelopt", {"quant_algo": "NVFP4"}, FP4_EXPERTS),
    ],
)
def test_codes_that_are_not_decoded_are_listed_as_they_are_stored_which_is_said(
    method: str, fields: dict[str, Any], parts: dict[str, tuple[str, tuple[int, ...]]]
) -> None:
    members = [member(f"m.{part}", *about) for part, about in parts.items()]
    found, problems = grouped_of(members, Declaration(method, "config.json", fields))
    assert found.weights == {}
    (problem,) = problems
    said = f"holds codes of {method or 'an unknown method'} that are not read: each is shown"
    assert (problem.severity, said in problem.what) == (Severity.WARNING, True)


def test_shapes_win_over_what_is_declared_and_it_is_told() -> None:
    members = [member(f"a.{part}", *about) for part, about in GPTQ.items()]
    fields = {"bits": 8, "group_size": 128}
    found, problems = grouped_of(members, Declaration("gptq", "config.json", fields))
    layout = found.weights[0].alike.layout
    assert isinstance(layout, CompanionLayout)
    assert (layout.bits, layout.group_size, layout.shape) == (4, 32, (64, 64))
    assert "8 bits, the shapes say 4" in problems[0].what
    assert "groups of 64, the shapes say groups of 32" in problems[0].what


@pytest.mark.parametrize(
    ("rules", "told"),
    [
        ({}, True),
        ({r"+:m\.a": {"bits": 4, "group_size": 32}}, False),
        ({"([a-z.]+)+!": {"bits": 4}, "x": {"group_size": 32}}, False),
        ({"m.a": {"bits": 3}, "x": 5}, True),
    ],
)
def test_any_rule_of_a_configuration_may_hold(rules: dict[str, Any], told: bool) -> None:
    """Which module a rule is for is not asked; what no rule says is told."""
    members = [member(f"m.a.{part}", *about) for part, about in GPTQ.items()]
    fields = {"bits": 8, "group_size": 16, "dynamic": rules}
    found, problems = grouped_of(members, Declaration("gptq", "config.json", fields))
    assert found.weights[0].alike.layout.group_size == 32
    assert bool(problems) == told


def test_a_size_that_is_said_and_fits_comes_before_equal_shares() -> None:
    members = [member(f"a.{part}", *about) for part, about in GPTQ.items()]
    fields = {"bits": 4, "group_size": 48}  # two groups of 64 inputs, the last is short
    found, problems = grouped_of(members, Declaration("gptq", "config.json", fields))
    assert found.weights[0].alike.layout.group_size == 48
    assert problems == ()


PACKED = {"weight_packed": ("I32", (8, 8)), "weight_scale": ("BF16", (8, 2))}
PACKED |= {"weight_shape": ("I64", (2,))}


def test_thousands_of_targets_take_no_time() -> None:
    """20,000 modules against 4,096 targets took 12 to 27 s once; now no pattern is run."""
    specs = {part: member(part, *about).spec for part, about in PACKED.items()}
    members = [
        Member(f"model.layers.{n}.mlp.experts.{n}.up.{part}", spec)
        for n in range(8000)
        for part, spec in specs.items()
    ]
    weights = {"num_bits": 4, "group_size": 32}
    groups = {
        f"group_{g}": {"targets": [f"re:([a-z.]+)+!{t}" for t in range(64)], "weights": weights}
        for g in range(64)
    }
    shape = (8).to_bytes(8, "little") + (64).to_bytes(8, "little")
    declared = Declaration("compressed-tensors", "config.json", {"config_groups": groups})
    start = time.process_time()
    found, problems = grouped_of(members, declared, {"I64": shape})
    assert in_time(time.process_time() - start, 2.0)
    assert len(found.weights) == 8000
    assert problems == ()


INT8 = {"weight": ("I8", (8, 64)), "weight_scale": ("BF16", (8, 1))}


@pytest.mark.parametrize(
    ("weights", "told"),
    [
        ({}, ""),
        ({"num_bits": 4}, "4 bits, the shapes say 8"),
        ({"symmetric": False}, "its zero points are missing"),
        ({"group_size": 32}, "groups of 32, the shapes say groups of 64"),
    ],
)
def test_what_a_group_says_otherwise_is_told(weights: dict[str, Any], told: str) -> None:
    channel = {"num_bits": 8, "type": "int", "strategy": "channel", "symmetric": True}
    groups = {"group_0": {"targets": ["Linear"], "weights": channel | weights}}
    declared = Declaration("compressed-tensors", "config.json", {"config_groups": groups})
    members = [member(f"a.proj.{part}", *about) for part, about in INT8.items()]
    found, problems = grouped_of(members, declared)
    assert len(found.weights) == 1
    assert [told in problem.what for problem in problems] == [True] * bool(told)


def test_an_order_of_columns_that_is_missing_is_told() -> None:
    members = [member(f"a.{part}", *about) for part, about in GPTQ.items()]
    declared = Declaration("gptq", "config.json", {"desc_act": True})
    _, problems = grouped_of(members, declared)
    assert "its g_idx is missing" in problems[0].what
    index = member("a.g_idx", "I32", (64,))
    assert grouped_of([*members, index], declared)[1] == ()


@pytest.mark.parametrize("method", ["bitsandbytes", "compressed-tensors", "modelopt", "fp8"])
@pytest.mark.parametrize(
    ("name", "dtype", "shape", "severity"),
    [
        ("a.weight", "I8", (8, 64), "error"),
        ("a.weight", "U8", (8, 64), "error"),
        ("a.weight", "F8_E4M3", (8, 64), "warning"),
        ("a.experts.up", "F8_E4M3", (2, 8, 64), "warning"),
        ("a.weight", "BF16", (8, 64), ""),
        ("a.mask", "U8", (8, 64), ""),
    ],
)
def test_codes_without_scales_are_told(
    method: str, name: str, dtype: str, shape: tuple[int, ...], severity: str
) -> None:
    found, problems = grouped_of([member(name, dtype, shape)], Declaration(method, "config.json"))
    assert found == Grouped()
    assert [problem.severity for problem in problems] == [severity] * bool(severity)
    bare = [one.what for one in grouped_of([member(name, dtype, shape)])[1]]
    said = "is FP8 without a scale: its values are the bare codes"
    assert bare == [said] * dtype.startswith("F8")


@pytest.mark.parametrize("scale", ["a.scale_weight", "a.weight.scale", "a.weight_scale"])
def test_scales_of_other_programs_are_joined(scale: str) -> None:
    members = [member("a.weight", "F8_E4M3", (8, 64)), member(scale, "F32", (1,))]
    found, problems = grouped_of([*members, member("scaled_fp8", "F8_E4M3", (2,))])
    assert [one.alike.layout.name for one in found.weights.values()] == ["fp8"]
    assert problems == ()


@pytest.mark.parametrize(
    ("name", "parts", "shape"),
    [
        ("exl3", {"trellis": ("I16", (16, 32, 64)), "suh": ("F16", (256,))}, (512, 256)),
        ("exl2", {"q_weight": ("I32", (32, 512)), "q_invperm": ("I16", (256,))}, (512, 256)),
        (
            "quip",
            {"Qidxs": ("I16", (512, 32)), "SU": ("F16", (256,)), "SV": ("F16", (512,))},
            (512, 256),
        ),
        ("marlin", {"B": ("I32", (16, 1024)), "s": ("F16", (2, 512))}, (512, 256)),
        (
            "fp_quant",
            {
                "qweight": ("U8", (64, 32)),
                "scales": ("U8", (64, 2)),
                "forward_hadamard_matrix": ("BF16", (32, 32)),
            },
            (64, 64),
        ),
        ("svdquant", {"qweight": ("I8", (512, 128)), "wscales": ("BF16", (4, 512))}, (512, 256)),
        ("aqlm", {"codes": ("I8", (512, 32, 1)), "codebooks": ("F16", (1, 256, 1, 8))}, (512, 256)),
    ],
)
def test_weights_that_are_not_read_are_counted(
    name: str, parts: dict[str, tuple[str, tuple[int, ...]]], shape: tuple[int, int]
) -> None:
    members = [member(f"a.{part}", dtype, size) for part, (dtype, size) in parts.items()]
    for method in ("", name):
        found, problems = grouped_of(members, Declaration(method, "config.json"))
        (weight,) = found.weights.values()
        assert (weight.name, weight.alike.spec.shape) == ("a.weight", shape)
        assert weight.alike.spec.type.name == name
        assert any("not read" in one.what for one in problems)


@pytest.mark.parametrize(
    ("declared", "parts", "name", "shape"),
    [
        (
            {"quant_method": "quark"},
            {"weight": ("U8", (128, 192)), "weight_scale": ("U8", (128, 8))},
            "quark-mxfp6",
            (128, 256),
        ),
        (
            {"quant_method": "quark"},
            {"weight": ("I32", (256, 16)), "weight_scale": ("BF16", (2, 128))},
            "quark-int4",
            (128, 256),
        ),
        (
            {"quant_method": "quark"},
            {"weight": ("I32", (128, 32)), "weight_scale": ("F32", (128,))},
            "quark-int4",
            (128, 256),
        ),
        (
            {"quant_method": "sdnq", "weights_dtype": "uint4"},
            {"weight": ("U8", (16384,)), "scale": ("BF16", (128, 4, 1))},
            "sdnq-4",
            (128, 256),
        ),
        (
            {"quant_method": "sdnq", "weights_dtype": "int5", "modules_dtype_dict": {"int8": []}},
            {"weight": ("I8", (128, 256)), "scale": ("BF16", (128, 4, 1))},
            "sdnq-8",
            (128, 256),
        ),
        (
            {"quant_method": "sdnq"},
            {"weight": ("U8", (16384,)), "scale": ("BF16", (128, 4, 1))},
            "",
            (),
        ),
    ],
)
def test_codes_that_only_a_declaration_tells_are_counted(
    declared: dict[str, Any],
    parts: dict[str, tuple[str, tuple[int, ...]]],
    name: str,
    shape: tuple[int, ...],
) -> None:
    members = [member(f"a.{part}", dtype, size) for part, (dtype, size) in parts.items()]
    said = Declaration(declared["quant_method"], "config.json", declared)
    found, problems = grouped_of(members, said)
    told = [(one.alike.layout.name, one.alike.spec.shape) for one in found.weights.values()]
    assert told == [(name, shape)] * bool(name)
    assert ("not read" if name else "how many bits") in problems[0].what


@pytest.mark.parametrize(
    ("declared", "parts", "scheme", "shape"),
    [
        (
            "quark",
            {"weight": ("U8", (64, 64)), "weight_quantizer.scale": ("U8", (64, 4))},
            "quark",
            (64, 128),
        ),
        (
            "quark",
            {"weight": ("F8_E4M3", (64, 64)), "weight_scale": ("F32", ())},
            "quark",
            (64, 64),
        ),
        (
            "comfyui",
            {"weight": ("F8_E4M3", (64, 64)), "weight_scale": ("F32", ())},
            "comfyui",
            (64, 64),
        ),
        (
            "",
            {"int8_weight": ("I8", (256, 200)), "scale": ("F32", (2, 2))},
            "turbodiffusion",
            (256, 200),
        ),
        (
            "torchao",
            {"_up_qdata": ("F8_E4M3", (2, 64, 32)), "_up_scale": ("F32", (2, 64, 1))},
            "torchao",
            (2, 64, 32),
        ),
    ],
)
def test_spellings_of_public_files_are_read(
    declared: str,
    parts: dict[str, tuple[str, tuple[int, ...]]],
    scheme: str,
    shape: tuple[int, ...],
) -> None:
    """docs/hf_quantization.md, section 4, says which file has which."""
    members = [member(f"a.{part}", dtype, size) for part, (dtype, size) in parts.items()]
    found, problems = grouped_of(members, Declaration(declared, "config.json"))
    (weight,) = found.weights.values()
    assert (weight.alike.layout.scheme, weight.alike.spec.shape) == (scheme, shape)
    assert problems == ()


@pytest.mark.parametrize(("method", "rows"), [("", 128), ("", 96), ("modelopt", 128)])
def test_scales_that_may_lie_in_tiles_are_told(method: str, rows: int) -> None:
    """Scales of ComfyUI are padded to 128 x 4, so that others lie in rows."""
    parts = {"weight": ("U8", (rows, 64)), "weight_scale": ("F8_E4M3", (rows, 8))}
    members = [member(f"a.{part}", *about) for part, about in parts.items()]
    members.append(member("a.weight_scale_2", "F32", ()))
    _, problems = grouped_of(members, Declaration(method, "config.json"))
    assert ["in tiles" in one.what for one in problems] == [True] * (rows == 128 and not method)


@pytest.mark.parametrize(
    ("form", "weight", "scale", "shape"),
    [
        ("nvfp4", ("U8", [128, 32]), ("F8_E4M3", [128, 4]), (128, 64)),
        ("mxfp8", ("F8_E4M3", [128, 128]), ("U8", [128, 4]), (128, 128)),
        ("asym_w4a8_int8", ("I8", [8, 32]), ("F8_E4M3", [8, 4]), (8, 64)),
        ("convrot_int8", ("I8", [8, 64]), ("F32", [8, 1]), (8, 64)),
    ],
)
@pytest.mark.parametrize("is_marked", [True, False])
def test_scales_in_comfyui_s_tiles_are_not_taken_for_rows(
    tmp_path: Path,
    form: str,
    weight: tuple[str, list[int]],
    scale: tuple[str, list[int]],
    shape: tuple[int, int],
    *,
    is_marked: bool,
) -> None:
    """ComfyUI, float.py, `to_blocked`: 128 rows of scales lie in tiles of 32 x 16 bytes."""
    said = {"format": form}
    if form == "convrot_int8":
        said = {"format": "int8_tensorwise", "convrot": True, "convrot_groupsize": 64}
    marker = json.dumps(said).encode()
    tensors = [("a.weight", *weight), ("a.weight_scale", *scale), ("a.weight_scale_2", "F32", [])]
    tensors = tensors[: 3 if form == "nvfp4" else 2]
    tensors += [("a.comfy_quant", "U8", [len(marker)])] * is_marked
    # only a marker tells integers apart
    layers = {"a": said} if weight[0] == "I8" else {}
    metadata = {} if is_marked else {"_quantization_metadata": json.dumps({"layers": layers})}
    content = bytearray(tensors_bytes(tensors, metadata))
    if is_marked:
        content[-len(marker) :] = marker
    path = tmp_path / "model.safetensors"
    path.write_bytes(content)
    with open_model(path) as model:
        tensor = model.tensors["a.weight"]
        assert (tensor.type.name, tensor.shape) == (f"comfy-{form}", shape)
        with pytest.raises(FormatError, match="not read"):
            tensor.dequantize()


def test_floats_beside_a_scale_are_told_unless_they_are_not_compressed_yet() -> None:
    members = [member("a.weight", "BF16", (8, 64)), member("a.weight_scale", "BF16", (8, 1))]
    for fields, count in (
        ({}, 1),
        ({"format": "dense"}, 0),
        ({"quantization_status": "frozen"}, 0),
    ):
        declared = Declaration("compressed-tensors", "config.json", fields)
        assert len(grouped_of(members, declared)[1]) == count
    assert grouped_of(members)[1] == ()


@pytest.mark.parametrize("shape", [(3, 2), (2, 5), (7, 7)])
def test_scales_of_no_tile_are_no_tiles(shape: tuple[int, int]) -> None:
    """A grid that tiles of no usual side make is refused: what lies in which tile is not known."""
    members = [
        member("a.weight", "F8_E4M3", (250, 391)),
        member("a.weight_scale_inv", "F32", shape),
    ]
    found, problems = grouped_of(members, Declaration("fp8", "config.json"))
    assert found == Grouped()
    assert ["do not fit a matrix" in one.what for one in problems] == [True]  # once
    said = Declaration("fp8", "config.json", {"weight_block_size": [100, 200]})
    members[1] = member("a.weight_scale_inv", "F32", (3, 2))
    found, problems = grouped_of(members, said)
    assert len(found.weights) == 1
    assert problems == ()
