"""What a weight with companions is, weighed from shapes, metadata and configuration.

The rules and the table of ambiguous ratios: docs/safetensors_and_blobs.md, section 3.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.quantization.grouped.detection import Resolution, config_quantization, resolve
from explorer.quantization.grouped.layout import (
    AFFINE_BITS,
    AFFINE_GROUPS,
    FIXED_SIZES,
    GroupParts,
    Mode,
    Part,
)
from explorer.text import plain_text


def _affine_parts(
    bits: int, size: int, rows: tuple[int, ...] = (8,), groups: int = 4
) -> GroupParts:
    scale = Part("BF16", (*rows, groups))
    return GroupParts(Part("U32", (*rows, groups * size * bits // 32)), scale, scale)


def _fixed_parts(mode: Mode, rows: tuple[int, ...] = (8,), groups: int = 4) -> GroupParts:
    bits, size = FIXED_SIZES[mode]
    packed = Part("U32", (*rows, groups * size * bits // 32))
    return GroupParts(packed, Part("U8", (*rows, groups)))


def _sizes(found: Resolution) -> tuple[str, int]:
    assert found.layout is not None, found.problem
    return found.layout.name, found.layout.group_size


def _assert_certain(found: Resolution, name: str, size: int) -> None:
    assert _sizes(found) == (name, size)
    assert (found.problem, found.guess) == (None, None)


@pytest.mark.parametrize("text", ["int4", "INT4", "Q4", "fp4", "Int4 "])
def test_aliases_of_int4(text: str) -> None:
    _assert_certain(resolve(_affine_parts(4, 64), text, "64"), "int4", 64)


@pytest.mark.parametrize("text", ["int8", "INT8", "Q8", "fp8"])
def test_aliases_of_int8(text: str) -> None:
    _assert_certain(resolve(_affine_parts(8, 64), text, "64"), "int8", 64)


@pytest.mark.parametrize("mode", list(FIXED_SIZES))
@pytest.mark.parametrize("said", [True, False])
def test_modes_with_byte_scales_are_certain_from_the_shapes(mode: Mode, said: bool) -> None:
    size = FIXED_SIZES[mode][1]
    metadata = (mode.value.upper(), str(size)) if said else ()
    found = resolve(_fixed_parts(mode), *metadata)
    _assert_certain(found, mode.value, size)
    assert found.shape == (8, 4 * size)


@pytest.mark.parametrize("bits", AFFINE_BITS)
@pytest.mark.parametrize("size", AFFINE_GROUPS)
def test_what_metadata_says_is_taken_if_the_shapes_agree(bits: int, size: int) -> None:
    text = {4: "int4", 8: "int8"}.get(bits, f"affine{bits}")
    found = resolve(_affine_parts(bits, size), text, str(size))
    _assert_certain(found, text, size)
    assert found.shape == (8, 4 * size)
    config = {"bits": bits, "group_size": size}
    for extra in ({}, {"mode": "affine"}):
        _assert_certain(resolve(_affine_parts(bits, size), config={**config, **extra}), text, size)


@pytest.mark.parametrize(
    ("ratio", "name", "size"),
    [
        # bits * group / 32, as in section 3: those with one meaning
        (3, "affine3", 32),
        (5, "affine5", 32),
        (10, "affine5", 64),
        (20, "affine5", 128),
        (24, "affine6", 128),
        (32, "int8", 128),
    ],
)
def test_ratios_with_one_meaning(ratio: int, name: str, size: int) -> None:
    scale = Part("F16", (8, 3))
    found = resolve(GroupParts(Part("U32", (8, 3 * ratio)), scale, scale))
    _assert_certain(found, name, size)


@pytest.mark.parametrize(
    ("ratio", "name", "size", "others"),
    [
        (4, "int4", 32, ["affine2 in groups of 64"]),  # as Ollama guesses
        (16, "int8", 64, ["int4 in groups of 128"]),  # as Ollama guesses
        (8, "int4", 64, ["int8 in groups of 32", "affine2 in groups of 128"]),
        (6, "affine3", 64, ["affine6 in groups of 32"]),
        (12, "affine6", 64, ["affine3 in groups of 128"]),
    ],
)
def test_ambiguous_ratios_are_reported_as_guesses(
    ratio: int, name: str, size: int, others: list[str]
) -> None:
    scale = Part("F16", (8, 3))
    found = resolve(GroupParts(Part("U32", (8, 3 * ratio)), scale, scale))
    assert _sizes(found) == (name, size)
    assert found.problem is None
    assert found.guess is not None
    assert all(other in found.guess for other in others)
    assert found.guess.count("groups of") == 1 + len(others)


@pytest.mark.parametrize(
    ("bits", "size", "quant_type", "expected"),
    [
        (4, 64, "int4", ("int4", 64)),  # the default since 0.18
        (4, 32, "int4", ("int4", 32)),  # the default before; not 2 bits in groups of 64
        (8, 64, "int8", ("int8", 64)),
        (8, 32, "int8", ("int8", 32)),
        (4, 128, "int4", ("int4", 128)),
    ],
)
def test_a_missing_group_size(
    bits: int, size: int, quant_type: str, expected: tuple[str, int]
) -> None:
    _assert_certain(resolve(_affine_parts(bits, size), quant_type), *expected)


@pytest.mark.parametrize(
    ("bits", "truth"), [(2, "affine2"), (3, "affine3"), (6, "affine6"), (8, "int8")]
)
def test_a_general_type_copied_into_every_blob_is_contradicted_by_the_shapes(
    bits: int, truth: str
) -> None:
    found = resolve(_affine_parts(bits, 64), "int4", "64")
    assert _sizes(found) == (truth, 64)
    assert found.shape == (8, 256)
    said, shown = "int4 in groups of 64", f"{truth} in groups of 64"
    assert found.problem == f"the metadata says {said}, the shapes say {shown}"


def test_config_json_settles_what_the_metadata_gets_wrong() -> None:
    config = {"bits": 8, "group_size": 32}
    found = resolve(_affine_parts(8, 32), "int4", "32", config)
    assert _sizes(found) == ("int8", 32)
    assert found.problem is not None
    assert "int4 in groups of 32" in found.problem


def test_metadata_goes_before_config_json() -> None:
    # 256 bits for each scale: both fit
    parts = _affine_parts(4, 64)
    _assert_certain(resolve(parts, "int8", "32", {"bits": 4, "group_size": 64}), "int8", 32)
    _assert_certain(resolve(parts, None, None, {"bits": 8, "group_size": 32}), "int8", 32)
    _assert_certain(resolve(parts, None, None, {"bits": 2, "group_size": 128}), "affine2", 128)


def test_half_of_what_is_said_is_enough() -> None:
    _assert_certain(resolve(_affine_parts(8, 32), config={"bits": 8}), "int8", 32)
    _assert_certain(resolve(_affine_parts(8, 32), config={"group_size": 32}), "int8", 32)
    _assert_certain(resolve(_affine_parts(6, 32), None, "32"), "affine6", 32)
    assert resolve(_affine_parts(8, 32), config={"mode": "affine"}).guess is not None


def test_byte_scales_contradict_another_type() -> None:
    found = resolve(_fixed_parts(Mode.MXFP8), "nvfp4", "16")
    assert _sizes(found) == ("mxfp8", 32)
    said, shown = "nvfp4 in groups of 16", "mxfp8 in groups of 32"
    assert found.problem == f"the metadata says {said}, the shapes say {shown}"
    assert resolve(_fixed_parts(Mode.NVFP4), "nvfp4", "32").problem is not None
    assert resolve(_fixed_parts(Mode.NVFP4), config={"bits": 4, "group_size": 64}).problem
    config = {"bits": 4, "group_size": 16, "mode": "nvfp4"}
    _assert_certain(resolve(_fixed_parts(Mode.NVFP4), config=config), "nvfp4", 16)


def test_float_scales_contradict_a_type_without_biases() -> None:
    found = resolve(_affine_parts(5, 64), "mxfp4", "32")
    assert _sizes(found) == ("affine5", 64)
    assert found.problem == (
        "the metadata says mxfp4 in groups of 32, the shapes say affine5 in groups of 64"
    )
    found = resolve(_affine_parts(4, 32), "nvfp4")
    assert _sizes(found) == ("int4", 32)
    assert found.problem == "the metadata says nvfp4, the shapes say int4 in groups of 32"
    assert found.guess is not None


@pytest.mark.parametrize("group_size", ["", "abc", "-64", "0", "6" * 400, "64.0", "²", "\x1b[2J"])
def test_a_group_size_that_is_none(group_size: str) -> None:
    found = resolve(_affine_parts(4, 64), "int4", group_size)
    assert _sizes(found) == ("int4", 64)
    assert found.problem is not None
    assert "group_size" in found.problem
    assert found.problem.isprintable()
    assert len(found.problem) < 200


def test_an_unknown_quant_type() -> None:
    found = resolve(_affine_parts(5, 64), "int\x1b5", "64")
    assert _sizes(found) == ("affine5", 64)
    assert found.problem is not None
    assert r"an unknown quant_type, “int\x1b5”, which Ollama takes" in found.problem


def test_an_unknown_quant_type_is_int8_in_groups_of_32_to_ollama() -> None:
    """Where shapes leave it open; without a type it would be int4 in groups of 64."""
    found = resolve(_affine_parts(8, 32), "q5_k")
    assert _sizes(found) == ("int8", 32)
    assert _sizes(resolve(_affine_parts(8, 32))) == ("int4", 64)
    assert found.problem is not None


def test_one_bit_is_taken_where_it_is_said() -> None:
    said = {"bits": 1, "group_size": 128}
    assert _sizes(resolve(_affine_parts(1, 128), config=said)) == ("affine1", 128)
    assert _sizes(resolve(_affine_parts(2, 32))) == ("affine2", 32)


def test_stacked_experts_and_packed_bytes() -> None:
    found = resolve(_affine_parts(4, 64, (4, 128), 2), "int4", "64")
    assert found.shape == (4, 128, 128)
    bytes_of_nvfp4 = GroupParts(Part("U8", (4, 128, 32)), Part("U8", (4, 128, 4)))
    found = resolve(bytes_of_nvfp4, "nvfp4", "16")
    _assert_certain(found, "nvfp4", 16)
    assert found.shape == (4, 128, 64)
    other_makers = GroupParts(Part("U8", (128, 32)), Part("F8_E4M3", (128, 4)))
    _assert_certain(resolve(other_makers), "nvfp4", 16)


@pytest.mark.parametrize(
    ("shape", "groups"),
    [((), 128 * 4 * 4), ((1,), 2048), ((4,), 512), ((4, 1, 1), 512), ((4, 128), 4), ((512,), 4)],
)
def test_global_scales_of_a_tensor_its_experts_or_its_rows(
    shape: tuple[int, ...], groups: int
) -> None:
    parts = _fixed_parts(Mode.NVFP4, (4, 128))
    found = resolve(GroupParts(parts.packed, parts.scale, None, Part("F32", shape)), "nvfp4", "16")
    _assert_certain(found, "nvfp4", 16)
    assert found.groups_per_global_scale == groups
    assert resolve(parts).groups_per_global_scale == 0


@pytest.mark.parametrize("part", [Part("F32", (3,)), Part("BF16", ()), Part("F32", (0,))])
def test_a_global_scale_that_fits_nothing(part: Part) -> None:
    parts = _fixed_parts(Mode.NVFP4, (4, 128))
    found = resolve(GroupParts(parts.packed, parts.scale, None, part), "nvfp4", "16")
    assert (found.layout, found.shape) == (None, None)
    assert found.problem is not None
    assert "global scale" in found.problem


def test_a_global_scale_where_there_is_none() -> None:
    parts = _fixed_parts(Mode.MXFP4)
    found = resolve(GroupParts(parts.packed, parts.scale, None, Part("F32", ())))
    assert _sizes(found) == ("mxfp4", 32)
    assert found.groups_per_global_scale == 0
    assert found.problem is not None


@pytest.mark.parametrize(
    ("parts", "what"),
    [
        (GroupParts(Part("I32", (8, 8)), Part("U8", (8, 4))), "I32"),
        (GroupParts(Part("U32", (8, 8)), Part("BF16", (8, 4))), "need biases"),
        (GroupParts(Part("U32", (8, 8)), Part("I8", (8, 4))), "I8"),
        (GroupParts(Part("U32", (8, 8)), Part("U8", (8, 4)), Part("BF16", (8, 4))), "scales"),
        (GroupParts(Part("U32", (8, 8)), Part("F16", (8, 1)), Part("U8", (8, 1))), "biases"),
        (GroupParts(Part("U8", (8, 32)), Part("F16", (8, 1)), Part("F16", (8, 1))), "U8"),
        (GroupParts(Part("U32", (8, 8)), Part("U8", (9, 4))), "do not fit together"),
        (GroupParts(Part("U32", (8, 8)), Part("U8", (8, 4, 1))), "do not fit together"),
        (GroupParts(Part("U32", ()), Part("U8", ())), "do not fit together"),
        (GroupParts(Part("U32", (8, 8)), Part("U8", (8, 0))), "do not fit together"),
        (GroupParts(Part("U32", (8, 0)), Part("U8", (8, 1))), "do not fit together"),
        (GroupParts(Part("U32", (8, 8)), Part("F16", (8, 1)), Part("F16", (8, 2))), "differ"),
        (GroupParts(Part("U32", (8, 8)), Part("U8", (8, 3))), "256 bits"),
        (GroupParts(Part("U32", (8, 9)), Part("U8", (8, 3))), "no known quantization"),
        (GroupParts(Part("U32", (8, 8)), Part("F8_E8M0", (8, 4))), "no known quantization"),
        (GroupParts(Part("U32", (8, 7)), Part("F16", (8, 1)), Part("F16", (8, 1))), "no known"),
    ],
)
def test_parts_that_do_not_fit_together(parts: GroupParts, what: str) -> None:
    found = resolve(parts, "int4", "64")
    assert (found.layout, found.shape, found.guess) == (None, None, None)
    assert found.problem is not None
    assert what in found.problem


def test_empty_weights() -> None:
    none = Part("BF16", (8, 0))
    assert resolve(GroupParts(Part("U32", (8, 0)), none, none), "int8").shape == (8, 0)
    found = resolve(GroupParts(Part("U32", (8, 0)), none, none))
    _assert_certain(found, "int4", 64)
    _assert_certain(resolve(_fixed_parts(Mode.MXFP8, groups=0), "mxfp8"), "mxfp8", 32)
    _assert_certain(resolve(_affine_parts(4, 64, (0,)), "int4"), "int4", 64)
    assert resolve(_affine_parts(4, 64, (0,)), "int4").shape == (0, 256)


_ANY_TEXT = st.none() | st.text(max_size=12) | st.sampled_from(["int4", "nvfp4", "64", "32"])
_ANY_PART = st.builds(
    Part,
    st.sampled_from(["U32", "U8", "BF16", "F16", "F32", "F8_E4M3", "I64", "?"]),
    st.lists(st.integers(0, 1 << 64), max_size=3).map(tuple),
)
_ANY_VALUE = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6)
_ANY_CONFIG = st.none() | st.dictionaries(
    st.sampled_from(["bits", "group_size", "mode"]), _ANY_VALUE | st.lists(_ANY_VALUE, max_size=2)
)
_ANY_PARTS = st.builds(
    GroupParts, _ANY_PART, _ANY_PART, st.none() | _ANY_PART, st.none() | _ANY_PART
)
_FITTING = st.builds(
    _affine_parts, st.sampled_from(AFFINE_BITS), st.sampled_from(AFFINE_GROUPS)
) | st.builds(_fixed_parts, st.sampled_from(list(FIXED_SIZES)))


@given(_ANY_PARTS | _FITTING, _ANY_TEXT, _ANY_TEXT, _ANY_CONFIG)
def test_anything_resolves_or_says_why_not(
    parts: GroupParts, quant_type: str | None, group_size: str | None, config: dict[str, Any] | None
) -> None:
    found = resolve(parts, quant_type, group_size, config)
    for text in (found.problem, found.guess):
        assert text is None or (plain_text(text) == text and len(text) < 600)
    if found.layout is None:
        assert found.shape is None
        assert found.problem is not None
        return
    assert found.shape is not None
    word = 32 if parts.packed.dtype == "U32" else 8
    assert found.shape[-1] * found.layout.bits == parts.packed.shape[-1] * word
    assert found.shape[-1] == parts.scale.shape[-1] * found.layout.group_size
    assert found.shape[:-1] == parts.packed.shape[:-1]


@given(_FITTING)
def test_every_layout_that_is_written_resolves_without_metadata(parts: GroupParts) -> None:
    assert resolve(parts).problem is None


def test_the_place_of_the_quantization_in_config_json() -> None:
    general, own = {"bits": 4, "group_size": 64}, {"bits": 8, "group_size": 32}
    module = "model.layers.0.mlp.down_proj"
    assert config_quantization({}, module) is None
    assert config_quantization({"quantization": general}, module) == general
    assert config_quantization({"quantization_config": general}, module) == general
    assert config_quantization({"text_config": {"quantization": general}}, module) == general
    assert config_quantization({"quantization": {**general, module: own}}, module) == own
    for other in ("language_model.", "model.language_model.", "language_model.model."):
        said = {"quantization": {**general, module.replace("model.", other, 1): own}}
        assert config_quantization(said, module) == own
    switched_on = {**general, module: True}
    assert config_quantization({"quantization": switched_on}, module) == switched_on
    assert config_quantization({"quantization": 4, "text_config": []}, module) is None
