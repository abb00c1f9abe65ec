"""What belongs together in a block, how it is said, and its tables."""

from __future__ import annotations

import numpy as np
import pytest

from explorer.analysis.block_detail import BlockDetail, BlockReader
from explorer.analysis.block_search import ComparedBlock, read_compared
from explorer.analysis.errors.pairs import RoundedPair
from explorer.formats import Tensor
from explorer.present.tables.blocks import field_table, field_value, sub_block_table, weight_table
from explorer.present.tables.table import Table
from explorer.qt.weights.block.strip import BlockPart, PartKind, bits_text, links_of
from explorer.quantization import TENSOR_TYPES
from tests.helpers.grouped_tensors import AFFINE_4, grouped_tensor
from tests.helpers.tensors import QUANTIZED, random_blocks, tensor_of


def tensor(name: str) -> Tensor:
    shape = (3, TENSOR_TYPES[name].block_weights)
    return tensor_of(name, random_blocks(name, 3).tobytes(), shape)


def rounded(one: Tensor, index: int, type_name: str) -> tuple[BlockDetail, ComparedBlock]:
    detail = BlockReader(one).read(index)
    run = detail.start, detail.values.size
    return detail, read_compared([RoundedPair(one, type_name)], one, run)


def cells(table: Table[int], name: str, rows: int) -> list[object]:
    return [table[name].flat(row) for row in range(rows)]


def test_texts_of_numbers_and_bits() -> None:
    assert bits_text(0b1111) == "bits 0–3"
    assert bits_text(0b1000_0000) == "bit 7"
    assert bits_text(0b1010_0001) == "bits 0, 5, 7"
    assert bits_text(255) == "all bits"


def test_a_weight_belongs_to_its_nibble_and_its_scales() -> None:
    detail = BlockReader(tensor("Q4_K")).read(1)
    links = links_of(detail, BlockPart(PartKind.WEIGHT, 40))  # sub-block 1
    assert np.flatnonzero(links.weights).tolist() == [40]
    assert np.flatnonzero(links.masks).tolist() == [0, 1, 2, 3, 5, 9, 24]
    assert links.masks[[5, 9, 24]].tolist() == [0x3F, 0x3F, 0xF0]
    assert links.text.startswith("Weight 40 (row 1, column 40): ")
    formula, value = links.text.split(": ")[1].split(" = ")
    made = eval(formula.replace("×", "*").replace("\N{MINUS SIGN}", "-"))
    assert float(value) == float(f"{detail.values[40]:.9g}")
    assert made == pytest.approx(float(value), abs=1e-6)


def test_a_byte_says_what_each_of_its_bits_is_for() -> None:
    detail = BlockReader(tensor("Q4_K")).read(0)
    value = detail.stored[4]
    assert links_of(detail, BlockPart(PartKind.BYTE, 4)).text == (
        f"Byte 4 = 0x{value:02X}, scales:   bits 0–5 → scale of weights 0–31;  "
        "bits 6–7 → scale of weights 128–159"
    )
    text = links_of(detail, BlockPart(PartKind.BYTE, 16)).text
    assert text.endswith("qs:   bits 0–3 → weight 0;  bits 4–7 → weight 32")
    text = links_of(detail, BlockPart(PartKind.BYTE, 2)).text
    assert text.endswith("dmin:   all bits → minimum of weights 0–255")
    sums = BlockReader(tensor("Q8_K")).read(0)
    links = links_of(sums, BlockPart(PartKind.BYTE, 270))
    assert "not read for decoding" in links.text
    assert not links.weights.any()


def test_fields_and_sub_blocks() -> None:
    detail = BlockReader(tensor("Q4_K")).read(0)
    links = links_of(detail, BlockPart(PartKind.FIELD, 3))
    assert links.weights.all()
    assert np.flatnonzero(links.masks).tolist() == list(range(16, 144))
    assert links.text.startswith("qs, 4-bit codes: ")
    links = links_of(detail, BlockPart(PartKind.SUB_BLOCK, 4))
    assert np.flatnonzero(links.weights).tolist() == list(range(128, 160))
    assert links.masks[[4, 8, 12]].tolist() == [0xC0, 0xC0, 0xFF]
    assert links.text.startswith("Weights 128–159: scale ")
    assert " × " in links.text


@pytest.mark.parametrize("name", QUANTIZED)
def test_every_type_can_be_looked_at_everywhere(name: str) -> None:
    type_name = "Q4_0" if TENSOR_TYPES[name].block_weights % 32 == 0 else "F16"
    detail, compared = rounded(tensor(name), 2, type_name)
    for part, count in (
        (PartKind.FIELD, len(detail.fields)),
        (PartKind.SUB_BLOCK, detail.scales.size),
        (PartKind.BYTE, len(detail.stored)),
        (PartKind.WEIGHT, detail.values.size),
    ):
        for number in {0, count // 2, count - 1}:
            links = links_of(detail, BlockPart(part, number), compared)
            assert links.masks.shape == (len(detail.stored),)
            assert links.text
    for row in range(len(detail.fields)):
        assert field_value(detail, row)


def test_tables_hold_exact_values() -> None:
    detail, compared = rounded(tensor("Q4_K"), 1, "Q4_0")
    table = weight_table(detail, compared)
    assert [column.name for column in table.shown()] == [
        *("weight", "code", "level", "value", "candidate", "error")
    ]
    assert cells(table, "value", 256) == detail.values.tolist()
    error = compared.candidate.astype(np.float64) - detail.values
    assert cells(table, "error", 256) == error.tolist()
    subs = sub_block_table(detail, compared)
    assert cells(subs, "scale", 8) == detail.scales.tolist()
    squares = (compared.errors**2).reshape(8, 32).mean(axis=1)
    assert cells(subs, "rms_error", 8) == np.sqrt(squares).tolist()
    used = cells(subs, "codes_used", 8)
    assert used == [len(set(detail.codes[32 * k : 32 * k + 32].tolist())) for k in range(8)]


def test_rows_of_a_code_grid_are_a_column() -> None:
    detail = BlockReader(tensor("IQ3_S")).read(0)
    assert detail.rows is not None
    table = weight_table(detail)
    assert cells(table, "row", 256) == detail.rows.indices.repeat(4).tolist()
    text = links_of(detail, BlockPart(PartKind.WEIGHT, 9)).text
    assert f"row {detail.rows.indices[2]} of 512 of the grid" in text


def test_groups_of_blobs() -> None:
    values = np.random.default_rng(1).normal(0, 1, (4, 256)).astype(np.float32)
    detail = BlockReader(grouped_tensor(AFFINE_4, values)).read(5)
    links = links_of(detail, BlockPart(PartKind.WEIGHT, 63))
    assert np.flatnonzero(links.masks).tolist() == [31, 32, 33, 34, 35]
    assert links.weights.sum() == 1
    assert cells(field_table(detail), "name", 3) == ["weight", "scales", "biases"]
