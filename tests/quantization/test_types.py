"""The table of tensor types, against docs/gguf.md section 7, the gguf package and safetensors."""

from __future__ import annotations

import pytest

from explorer.quantization import TENSOR_TYPES, ggml_type
from explorer.quantization.registry import has_decoder
from explorer.quantization.types import OF_LLAMA_CPP

# docs/gguf.md, section 7: id name block bytes bits-per-weight, as printed there
_TABLE = """
0 F32 1 4 32|1 F16 1 2 16|2 Q4_0 32 18 4.5|3 Q4_1 32 20 5|6 Q5_0 32 22 5.5|7 Q5_1 32 24 6
8 Q8_0 32 34 8.5|9 Q8_1 32 36 9|10 Q2_K 256 84 2.625|11 Q3_K 256 110 3.4375|12 Q4_K 256 144 4.5
13 Q5_K 256 176 5.5|14 Q6_K 256 210 6.5625|15 Q8_K 256 292 9.125|16 IQ2_XXS 256 66 2.0625
17 IQ2_XS 256 74 2.3125|18 IQ3_XXS 256 98 3.0625|19 IQ1_S 256 50 1.5625|20 IQ4_NL 32 18 4.5
21 IQ3_S 256 110 3.4375|22 IQ2_S 256 82 2.5625|23 IQ4_XS 256 136 4.25|24 I8 1 1 8|25 I16 1 2 16
26 I32 1 4 32|27 I64 1 8 64|28 F64 1 8 64|29 IQ1_M 256 56 1.75|30 BF16 1 2 16
34 TQ1_0 256 54 1.6875|35 TQ2_0 256 66 2.0625|39 MXFP4 32 17 4.25|40 NVFP4 64 36 4.5
41 Q1_0 128 18 1.125|42 Q2_0 64 18 2.25
"""
_ROWS = [row.split() for line in _TABLE.split("\n") if line for row in line.split("|")]


def test_all_35_live_types_are_there() -> None:
    assert len(_ROWS) == 35
    assert {int(row[0]) for row in _ROWS} == {kind.id for kind in OF_LLAMA_CPP}


@pytest.mark.parametrize("row", _ROWS, ids=lambda row: row[1])
def test_sizes(row: list[str]) -> None:
    number, name, block, size, bits = row
    kind = ggml_type(int(number))
    assert (kind.id, kind.name) == (int(number), name)
    assert (kind.block_weights, kind.block_bytes) == (int(block), int(size))
    assert kind.bits_per_weight == float(bits)
    assert TENSOR_TYPES[name] is kind
    plain = name[0] in "FIB" and name[:2] != "IQ"
    assert kind.quantized is not plain


def test_sizes_against_the_gguf_package() -> None:
    gguf = pytest.importorskip("gguf")
    for member, sizes in gguf.GGML_QUANT_SIZES.items():
        kind = ggml_type(int(member))
        # the package has two f32 in a block of Q8_1, as ggml had once; now they are two f16
        expected = (32, 36) if member.name == "Q8_1" else sizes
        assert (kind.name, kind.block_weights, kind.block_bytes) == (member.name, *expected)


@pytest.mark.parametrize(
    ("number", "name"),
    [
        *((4, "Q4_2"), (5, "Q4_3"), (31, "Q4_0_4_4"), (32, "Q4_0_4_8"), (33, "Q4_0_8_8")),
        *((36, "IQ4_NL_4_4"), (37, "IQ4_NL_4_8"), (38, "IQ4_NL_8_8")),
    ],
)
def test_removed_types_list_with_the_size_of_the_type_that_they_repack(
    number: int, name: str
) -> None:
    kind = ggml_type(number)
    assert kind.name == f"removed ({name})"
    assert kind.nbytes(32) == (18 if number > 5 else None)
    assert kind.bits_per_weight == (4.5 if number > 5 else 0.0)
    assert kind not in OF_LLAMA_CPP
    assert not has_decoder(kind.name)


@pytest.mark.parametrize("number", [43, 77, 1 << 31, (1 << 32) - 1])
def test_unknown_types_list_without_a_size(number: int) -> None:
    kind = ggml_type(number)
    assert (kind.name, kind.known, kind.id) == (f"unknown ({number})", False, number)
    assert kind.nbytes(256) is None


# safetensors/src/tensor.rs, Dtype::bitsize
_BITS = {
    **{4: ("F4",), 6: ("F6_E2M3", "F6_E3M2"), 16: ("I16", "U16", "F16", "BF16")},
    8: (*("BOOL", "U8", "I8", "F8_E5M2", "F8_E4M3", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ"),),
    **{32: ("I32", "U32", "F32"), 64: ("C64", "F64", "I64", "U64")},
}


def test_bits_of_safetensors_types() -> None:
    for bits, names in _BITS.items():
        assert [TENSOR_TYPES[name].bits_per_weight for name in names] == [bits] * len(names)


def test_bytes_come_in_whole_blocks() -> None:
    q4 = ggml_type(2)
    assert q4.nbytes(0) == 0
    assert q4.nbytes(64) == 36
    assert q4.nbytes(33) is None
    assert TENSOR_TYPES["F4"].nbytes(3) is None
    assert TENSOR_TYPES["F6_E2M3"].nbytes(8) == 6
    assert ggml_type(14).nbytes(1 << 60) == (1 << 52) * 210
