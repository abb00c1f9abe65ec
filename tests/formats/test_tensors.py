"""Names of tensors, and shapes as rows and columns.

The names are from docs/gguf.md, section 9, and from Hugging Face models.
"""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.formats.tensors import Folding, TensorName, natural_key, parse_name
from explorer.quantization import TENSOR_TYPES
from tests.helpers.stopwatch import in_time


@pytest.mark.parametrize(
    ("name", "stack", "layer", "role"),
    [
        ("token_embd.weight", "", None, "token_embd"),
        ("output_norm.bias", "", None, "output_norm"),
        ("rope_freqs", "", None, "rope_freqs"),
        ("blk.0.attn_q.weight", "blk", 0, "attn_q"),
        ("blk.12.attn_q.bias", "blk", 12, "attn_q"),
        ("blk.12.ffn_down.scale", "blk", 12, "ffn_down"),
        ("blk.3.ffn_down.input_scale", "blk", 3, "ffn_down"),
        ("blk.7.ssm_a", "blk", 7, "ssm_a"),
        ("v.blk.1.attn_k.weight", "v.blk", 1, "attn_k"),
        ("enc.blk.23.attn_rel_b.weight", "enc.blk", 23, "attn_rel_b"),
        ("blk.1.attn_q.weight.lora_a", "blk", 1, "attn_q.weight.lora_a"),
        ("model.layers.31.mlp.down_proj.weight", "model.layers", 31, "mlp.down_proj"),
        (
            "model.layers.3.mlp.experts.17.up_proj.weight",
            "model.layers",
            3,
            "mlp.experts.17.up_proj",
        ),
        ("bert.encoder.layer.4.output.dense.bias", "bert.encoder.layer", 4, "output.dense"),
        ("transformer.h.5.attn.c_attn.weight", "transformer.h", 5, "attn.c_attn"),
        ("vision.blocks.2.norm.weight", "vision.blocks", 2, "norm"),
        ("", "", None, ""),
        (".weight", "", None, ".weight"),
        ("blk.x.attn_q.weight", "", None, "blk.x.attn_q"),
        ("blk.1", "", None, "blk.1"),
        ("blk.99999999999999999999.a", "", None, "blk.99999999999999999999.a"),
        ("myblk.1.a", "", None, "myblk.1.a"),
    ],
)
def test_parse(name: str, stack: str, layer: int | None, role: str) -> None:
    assert parse_name(name) == TensorName(stack, layer, role)


def test_natural_order() -> None:
    names = ["blk.10.a", "blk.2.b", "Blk.2.a", "blk.2.a10", "blk.2.a9", "a", "10", "9", ""]
    assert sorted(names, key=natural_key) == [
        "",
        "9",
        "10",
        "a",
        "Blk.2.a",
        "blk.2.a9",
        "blk.2.a10",
        "blk.2.b",
        "blk.10.a",
    ]


@given(st.text(max_size=60), st.text(max_size=60))
def test_any_text_is_a_name(first: str, second: str) -> None:
    for name in (first, second):
        parsed = parse_name(name)
        assert name.startswith(parsed.stack)
        assert parsed.role in name
        assert parsed.role or not name or parsed.layer is not None
    assert (natural_key(first) < natural_key(second)) or natural_key(first) >= natural_key(second)


@pytest.mark.parametrize(
    "name",
    ["a." * 30_000, "blk." * 15_000, "." * 65_000, "1" * 65_000, "blk.1." * 10_000, "blk." * 120],
)
def test_hostile_names_cost_nothing(name: str) -> None:
    started = time.process_time()
    for suffix in map(str, range(20)):
        parse_name(name + suffix)
        natural_key(name + suffix)
    assert in_time(time.process_time() - started, 0.5)


@pytest.mark.parametrize(
    ("shape", "numbers", "place"),
    [
        ((5, 7), (4,), (4, 0)),
        ((5, 7), (4, 6), (4, 6)),
        ((5, 7), (5, 0), None),
        ((5, 7), (0, 7), None),
        ((5, 7), (1, 1, 1), None),
        ((7,), (6,), (0, 6)),
        ((7,), (0, 6), (0, 6)),
        ((7,), (7,), None),
        ((2, 3, 8), (1, 2, 3), (5, 3)),
        ((2, 3, 8), (5, 3), (5, 3)),
        ((2, 3, 8), (1, 3, 0), None),
        ((2, 3, 8), (6,), None),
        ((), (0,), (0, 0)),
    ],
)
def test_finds_the_cell_that_numbers_mean(
    shape: tuple[int, ...], numbers: tuple[int, ...], place: tuple[int, int] | None
) -> None:
    assert Folding(shape).place_of(numbers) == place


def test_row_names_and_places_agree() -> None:
    folding = Folding((4, 3, 5, 2))
    for row in range(folding.rows):
        indices = tuple(map(int, folding.row_name(row).split(", ")))
        assert folding.place_of((*indices, 1)) == (row, 1)


def test_a_type_fits_rows_of_whole_blocks() -> None:
    kind = TENSOR_TYPES["Q4_K"]
    assert Folding((3, 512)).block_problem(kind) is None
    assert Folding((512, 3)).block_problem(kind) == (
        "rows of 3 weights are not a whole number of blocks of 256"
    )
    assert Folding(()).block_problem(TENSOR_TYPES["F32"]) is None
