"""The filter language, term by term; what is expected is worked out row by row in plain Python."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.formats.columns import TensorArrays, tensor_arrays, text_ranks
from explorer.formats.tensor_filter import parse_filter
from explorer.formats.tensors import Extent, Shape, Tensor, TensorColumns, TensorTable, natural_key
from explorer.quantization import TENSOR_TYPES, TensorType, ggml_type
from explorer.sources import MemorySource
from tests.helpers.stopwatch import in_time

_FIRST = MemorySource(b"", Path("/models/Big-00001-of-00002.gguf"))
_SECOND = MemorySource(b"", Path("/models/Big-00002-of-00002.gguf"))

# name, type, shape, offset, source, damage
_ROWS: list[tuple[str, TensorType, Shape, int, MemorySource, str | None]] = [
    ("token_embd.weight", TENSOR_TYPES["Q6_K"], (32000, 4096), 0, _FIRST, None),
    ("blk.0.attn_q.weight", TENSOR_TYPES["Q4_K"], (4096, 4096), 4096, _FIRST, None),
    ("blk.2.ffn_up.weight", TENSOR_TYPES["Q4_0"], (4096, 1024), 8192, _FIRST, None),
    ("blk.10.FFN_down.weight", TENSOR_TYPES["Q6_K"], (1024, 4096), 1 << 40, _SECOND, "cut short"),
    ("blk.10.attn_norm.weight", TENSOR_TYPES["F32"], (4096,), 64, _SECOND, None),
    ("odd name:with colon", ggml_type(4711), (2, 3, 4096, 1), 128, _SECOND, "size not known"),
    ("huge", TENSOR_TYPES["I8"], (2**63 - 1,), 0, _SECOND, None),
    ("scalar", TENSOR_TYPES["F32"], (), 0, _SECOND, None),
    ("empty", TENSOR_TYPES["F32"], (0, 8), 0, _SECOND, None),
]
_NAMES = [row[0] for row in _ROWS]


def _table(rows: list[tuple[str, TensorType, Shape, int, MemorySource, str | None]]) -> TensorTable:
    columns = TensorColumns()
    for name, kind, shape, _, _, _ in rows:
        parameters = 1
        for count in shape:
            parameters *= count
        columns.names.append(name)
        columns.shapes.append(shape)
        columns.types.append(kind)
        columns.parameters.append(parameters)
        columns.nbytes.append(kind.nbytes(parameters) or 0)

    def build(row: int) -> Tensor:
        name, kind, shape, offset, source, damage = rows[row]
        extents = (Extent(source, offset, columns.nbytes[row]),)
        return Tensor(name, shape, kind, extents, columns.parameters[row], damage=damage)

    return TensorTable(columns, build)


@pytest.fixture(scope="module")
def arrays() -> TensorArrays:
    return tensor_arrays(_table(_ROWS))


def _found(arrays: TensorArrays, text: str) -> list[int]:
    mask = parse_filter(text).mask(arrays)
    assert mask.dtype == np.bool_
    assert mask.shape == (len(_ROWS),)
    return np.flatnonzero(mask).tolist()


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("", list(range(9))),
        ("   ", list(range(9))),
        ("ffn", [2, 3]),
        ("FFN", [2, 3]),
        ("ffn down", [3]),
        ("down ffn ffn", [3]),
        ('"name:with colon"', [5]),
        ('"odd name"', [5]),
        ("-weight", [5, 6, 7, 8]),
        ("-weight -huge", [5, 7, 8]),
        ('"-"', []),
        ('""', list(range(9))),
        ('-"odd name" -weight', [6, 7, 8]),
        ("name:attn", [1, 4]),
        ('name:"odd name"', [5]),
        ("type:q6_k", [0, 3]),
        ("type:Q4_K,q6_K", [0, 1, 3]),
        ("type:q4_k,", [1]),
        ("type:q4_*", [1, 2]),
        ("type:*", list(range(9))),
        ("-type:f32 type:f*", []),
        ("type=i8", [6]),
        ("role:attn", [1, 4]),
        ("role:ffn_d", [3]),
        ("role:weight", []),
        ("layer:10", [3, 4]),
        ("layer:0-2", [1, 2]),
        ("layer:2-", [2, 3, 4]),
        ("layer:-2", [1, 2]),
        ("layer:0,5,9-", [1, 3, 4]),
        ("layer:none", [0, 5, 6, 7, 8]),
        ("-layer:none", [1, 2, 3, 4]),
        ("layer<3", [1, 2]),
        ("layer>=2", [2, 3, 4]),
        ("layer:>2", [3, 4]),
        ("layer=2", [2]),
        ("file:00001", [0, 1, 2]),
        ("file:MODELS", []),
        ("shape:4096", [0, 1, 2, 3, 4, 5]),
        ("shape:1024", [2, 3]),
        ("shape:4,096x1,024", [2]),
        ("shape:4096×1024", [2]),
        ("shape:1024x4096", [3]),
        ("shape:4096x", [1, 2, 4]),
        ("shape:*x4096", [0, 1, 3]),
        ("shape:2x*x4096x1", [5]),
        ("shape:9223372036854775807", [6]),
        ("dims:1", [4, 6]),
        ("dims:0", [7]),
        ("dims>2", [5]),
        ("dims:1-2", [0, 1, 2, 3, 4, 6, 8]),
        ("size>9M", [0, 6]),
        ("size>=9M", [0, 1, 6]),
        ("size<1KiB", [5, 7, 8]),
        ("size=9M", [1]),
        ("size=2.3M", [2]),
        ("size=16384", [4]),
        ("size=16K", [4]),
        ("size:16kib", [4]),
        ("size=16KB", [4]),
        ("size=4b", [7]),
        ("size>=9,223,372,036,854,775,807", [6]),
        ("size>9223372036854775807", []),
        ("size>8388607T", [6]),
        ("size<99999999999999999999", list(range(9))),
        ("params>=1G", [6]),
        ("params>=1B", [6]),
        ("params=131M", [0]),
        ("params>16M params<17M", [1]),
        ("params=0", [8]),
        ("bpw<4.5", [5, 8]),
        ("bpw<=4.5", [1, 2, 5, 8]),
        ("bpw=4.5", [1, 2]),
        ("bpw=6.56", [0, 3]),
        ("bpw=8", [6]),
        ("offset>=1T", [3]),
        ("offset=0x1000", [1]),
        ("offset=4k", [1]),
        ("is:damaged", [3, 5]),
        ("-is:damaged ffn", [2]),
        ("is:quantized", [0, 1, 2, 3]),
        ("ffn type:q6_k size>1M layer:3-70", [3]),
    ],
)
def test_term(arrays: TensorArrays, text: str, rows: list[int]) -> None:
    assert parse_filter(text).problems == ()
    assert _found(arrays, text) == rows


@pytest.mark.parametrize(
    ("text", "rows", "word"),
    [
        ("ffn -", [2, 3], "'-' still"),
        ("ffn --", [2, 3], "'--' still"),
        ("ffn size>", [2, 3], "'size>'"),
        ("ffn size>x", [2, 3], "size>x"),
        ("ffn size>1Q", [2, 3], "'size>1Q' is"),
        ("ffn size:>", [2, 3], "'size:>' still"),
        ("ffn size:>x", [2, 3], "'size:>x' is"),
        ("ffn bpw>1M", [2, 3], "bpw>1M"),
        ("ffn layer:x", [2, 3], "'layer:x' is"),
        ("ffn layer:", [2, 3], "layer"),
        ("ffn -layer:", [2, 3], "'-layer:' still"),
        ("ffn type:", [2, 3], "type"),
        ("ffn type:,", [2, 3], "type"),
        ("ffn type>q4", [2, 3], "type>"),
        ("ffn is:dam", [2, 3], "is:damaged"),
        ("ffn shape:x", [2, 3], "shape"),
        ("ffn shape:4096xx1", [2, 3], "shape"),
        ("type:q6", [0, 3], "begin"),
        ("type:unknown", [5], "begin"),
        ("name:with", [5], None),
        ("name>3", list(range(9)), "name>"),
        ('"odd name', [5], "quotation"),
        ("e:w", [5], "'e'"),
        ("nothing>3", [], "nothing"),
    ],
)
def test_term_being_typed(
    arrays: TensorArrays, text: str, rows: list[int], word: str | None
) -> None:
    problems = parse_filter(text).problems
    assert len(problems) == (word is not None)
    assert word is None or word in problems[0]
    assert all(problem.endswith(".") for problem in problems)
    assert _found(arrays, text) == rows


def test_only_an_empty_filter_is_empty() -> None:
    assert parse_filter("").is_empty
    assert parse_filter(" size> ").is_empty
    assert not parse_filter("a").is_empty
    assert not parse_filter("dims:1").is_empty


def test_problems_do_not_repeat_the_whole_of_a_long_text() -> None:
    assert all(len(problem) < 400 for problem in parse_filter("size>" + "9" * 100_000).problems)
    assert all(len(problem) < 400 for problem in parse_filter("a" * 100_000 + ":1").problems)


_PIECES = st.sampled_from(
    [
        *("size", "layer", "type", "shape", "is", "bpw", "none", "damaged", "q4"),
        *(':><=-"*,x ', "<=", ":", ">", "=", "-", '"', "*", ",", "x", " ", "\0", "\udcff"),
        *("3", "1.5", "0x", "1e9", "9" * 30, "\u0661", "\u00b2"),
    ]
)


@pytest.mark.slow
@given(st.one_of(st.text(), st.lists(_PIECES, max_size=12).map("".join)))
def test_any_text_is_a_filter(text: str) -> None:
    parsed = parse_filter(text)
    mask = parsed.mask(_ARRAYS)
    assert mask.shape == (len(_ROWS),)
    assert mask.dtype == np.bool_
    assert not parsed.is_empty or mask.all()


@given(st.text(alphabet=st.characters(codec="utf-8", exclude_characters='"')))
def test_quoted_text_is_looked_for_as_it_is(text: str) -> None:
    mask = parse_filter(f'"{text}"').mask(_ARRAYS)
    assert mask.tolist() == [text.lower() in name.lower() for name in _NAMES]


@given(
    st.sampled_from([">", ">=", "<", "<=", "="]),
    st.one_of(st.integers(0, 2**65), st.sampled_from([2**63 - 2, 2**63 - 1, 2**63, 16384])),
)
def test_comparisons_are_exact(sign: str, number: int) -> None:
    expected = {
        ">": lambda x: x > number,
        ">=": lambda x: x >= number,
        "<": lambda x: x < number,
        "<=": lambda x: x <= number,
        "=": lambda x: x == number,
    }[sign]
    mask = parse_filter(f"size{sign}{number}").mask(_ARRAYS)
    assert mask.tolist() == [expected(int(nbytes)) for nbytes in _ARRAYS.nbytes]


def test_columns(arrays: TensorArrays) -> None:
    assert len(arrays) == 9
    assert arrays.names[3] == "blk.10.ffn_down.weight"
    assert arrays.layers.tolist() == [-1, 0, 2, 10, 10, -1, -1, -1, -1]
    assert arrays.parameters[6] == arrays.nbytes[6] == 2**63 - 1
    assert arrays.bits_per_weight.tolist() == pytest.approx(
        [6.5625, 4.5, 4.5, 6.5625, 32, 0, 8, 32, 0]
    )
    assert arrays.damaged.tolist() == [i in (3, 5) for i in range(9)]
    assert arrays.file_codes.tolist() == [0, 0, 0, 1, 1, 1, 1, 1, 1]
    assert [arrays.shapes[code] for code in arrays.shape_codes] == [row[2] for row in _ROWS]
    shapes = [row[2] for row in _ROWS]
    assert [shapes[i] for i in np.argsort(arrays.shape_ranks)] == sorted(shapes)


def test_names_rank_naturally(arrays: TensorArrays) -> None:
    order = [_NAMES[i] for i in np.argsort(arrays.name_ranks)]
    assert order.index("blk.2.ffn_up.weight") < order.index("blk.10.FFN_down.weight")
    assert order == sorted(_NAMES, key=natural_key)


@given(st.lists(st.text(alphabet="ab1029.", max_size=6)))
def test_ranks_sort_and_tie(texts: list[str]) -> None:
    ranks = text_ranks(texts)
    assert [natural_key(texts[i]) for i in np.argsort(ranks)] == sorted(map(natural_key, texts))
    for i, text in enumerate(texts):
        assert all((ranks[i] == ranks[j]) == (text == other) for j, other in enumerate(texts))


def test_numbers_beyond_64_bits_are_held_at_the_largest() -> None:
    table = _table([("a", TENSOR_TYPES["F64"], (2**63, 2**63), 2**70, _FIRST, None)])
    columns = tensor_arrays(table)
    assert columns.nbytes[0] == columns.parameters[0] == columns.offsets[0] == 2**63 - 1
    assert parse_filter("size>1T params>1T offset>1T").mask(columns).all()


def test_no_tensors() -> None:
    columns = tensor_arrays(_table([]))
    assert len(columns) == 0
    for text in ("", "ffn", "-ffn type:q6_k size>1 layer:3 shape:1 dims:1 is:quantized file:a"):
        assert parse_filter(text).mask(columns).shape == (0,)


def test_building_can_be_given_up() -> None:
    def give_up() -> None:
        raise InterruptedError

    with pytest.raises(InterruptedError):
        tensor_arrays(_table(_ROWS), give_up)


def test_filters_20000_tensors_while_one_types() -> None:
    roles = ["attn_q", "attn_k", "ffn_up", "ffn_down"]
    kind = TENSOR_TYPES["Q4_K"]
    rows = [
        (f"blk.{i // 4}.{roles[i % 4]}.weight", kind, (4096, 1024 + i % 4), i, _FIRST, None)
        for i in range(20_000)
    ]
    columns = tensor_arrays(_table(rows))
    parsed = parse_filter("ffn weight -up type:q4_k size>1M layer:3-4000 shape:4096")
    times = []
    for _ in range(5):
        start = time.process_time()
        mask = parsed.mask(columns)
        times.append(time.process_time() - start)
    assert mask.sum() == 3998
    assert in_time(min(times), 0.05)  # takes 1 ms; the budget of 5 ms with room for a busy machine


_ARRAYS = tensor_arrays(_table(_ROWS))
