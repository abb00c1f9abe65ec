"""Vocabularies: made up ones, wrong ones, and the real ones of shared/data."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.errors import FormatError
from explorer.formats.gguf.open import open_gguf
from explorer.formats.model import Metadata, MetadataEntry, Model, NumberArray, StringArray, Value
from explorer.formats.tensors import TensorColumns, TensorTable
from explorer.formats.vocabulary import (
    MAX_SHOWN,
    NO_TYPE,
    Scheme,
    Vocabulary,
    decode_token,
    read_vocabulary,
)
from tests.helpers.gguf_writer import ARRAY, F32, STRING, U32, Array, GgufFile, Order

_DATA = Path(__file__).parents[3] / "shared" / "data"
_P = "tokenizer.ggml."


def _strings(*items: str | bytes) -> StringArray:
    raw = [i if isinstance(i, bytes) else i.encode("utf-8", "surrogateescape") for i in items]
    lengths = np.array([len(r) for r in raw], dtype=np.int64)
    return StringArray(b"".join(raw), np.cumsum(lengths) - lengths, lengths)


def _ints(*items: int, kind: str = "i4") -> NumberArray:
    return NumberArray(np.array(items, dtype=kind))


def _model(values: Mapping[str, Any]) -> Model:
    def entry(key: str, value: Value) -> MetadataEntry:
        length = None if isinstance(value, (str, int, float)) else len(value)
        return MetadataEntry(key, f"<{type(value).__name__}>", length, lambda: value)

    def build(row: int) -> Any:
        raise AssertionError("there are no tensors")

    return Model(
        format="gguf",
        path=Path("m.gguf"),
        files=(),
        metadata=Metadata([entry(_P + key, value) for key, value in values.items()]),
        tensors=TensorTable(TensorColumns(), build),
    )


def _vocabulary(
    tokenizer: str | None, *tokens: str | bytes, types: list[int] | None = None
) -> Vocabulary:
    values: dict[str, Any] = {"tokens": _strings(*tokens)}
    if tokenizer is not None:
        values["model"] = tokenizer
    if types is not None:
        values["token_type"] = _ints(*types)
    vocabulary = read_vocabulary(_model(values))
    assert vocabulary is not None
    return vocabulary


def _bytes_to_unicode() -> dict[int, str]:
    """The table as GPT-2 builds it (openai/gpt-2, src/encoder.py), apart from the program's own."""
    kept = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1)]
    kept += range(ord("®"), ord("ÿ") + 1)
    table, extra = {byte: chr(byte) for byte in kept}, 0
    for byte in range(256):
        if byte not in table:
            table[byte] = chr(256 + extra)
            extra += 1
    return table


_GPT2 = _bytes_to_unicode()


def _byte_level(raw: bytes) -> str:
    return "".join(_GPT2[byte] for byte in raw)


@pytest.mark.parametrize(
    ("tokenizer", "stored", "kind", "meaning"),
    [
        ("gpt2", "Ġthe", 1, " the"),
        ("gpt2", "ä¹ĭåĨħ", 1, "之内"),
        ("gpt2", "Ċ", 1, "\n"),
        ("gpt2", "ä", 1, "\udce4"),  # half a character is a byte
        ("gpt2", "Ġthe", 3, "Ġthe"),
        ("gpt2", "<|end of text|>", 3, "<|end of text|>"),
        ("gpt2", "two words", 1, "two words"),
        ("gpt2", "naïve Ġ\x85▁", 1, "na\udcefve  \x85▁"),
        ("llama", "▁the▁cat", 1, " the cat"),
        ("llama", "▁", 4, "▁"),
        ("llama", "<0x0A>", 6, "\n"),
        ("llama", "<0xE4>", 6, "\udce4"),
        ("llama", "<0x0A>", 1, "<0x0A>"),
        ("llama", "<0x0A>", NO_TYPE, "\n"),
        ("llama", "<0x0G>", 6, "<0x0G>"),
        ("llama", "<s>", 3, "<s>"),
        ("t5", "▁der", 1, " der"),
        ("gemma4", "▁der", 1, " der"),
        ("bert", "▁word", 1, " word"),
        ("rwkv", "\\x0a\\t\\\\ä\\xff\\'", 1, "\n\t\\ä\udcff'"),
        ("rwkv", "\\", 1, "\\"),
        ("plamo2", "<0x41>", 6, "A"),
        ("plamo2", "▁a", 1, "▁a"),
        ("something new", "Ġ▁<0x0A>", 1, "Ġ▁<0x0A>"),
        (None, "Ġ▁##", 1, "Ġ▁##"),
        ("llama", "", 1, ""),
        ("gpt2", "", 1, ""),
    ],
)
def test_what_a_token_stands_for(
    tokenizer: str | None, stored: str, kind: int, meaning: str
) -> None:
    types = None if kind == NO_TYPE else [kind]
    vocabulary = _vocabulary(tokenizer, stored, types=types)
    assert vocabulary.text(0) == meaning
    assert vocabulary.raw(0) == stored.encode()


def test_word_pieces_of_old_files() -> None:
    vocabulary = _vocabulary("bert", "[CLS]", "word", "##ing", "##", "#")
    assert [vocabulary.text(i) for i in range(5)] == ["[CLS]", "word", "ing", "##", "#"]


@given(st.binary(max_size=40))
def test_every_run_of_bytes_comes_back_from_byte_level(raw: bytes) -> None:
    decoded = decode_token(_byte_level(raw), 1, Scheme.BYTE_LEVEL)
    assert decoded.encode("utf-8", "surrogateescape") == raw


@given(st.lists(st.binary(max_size=12)), st.sampled_from(list(Scheme)), st.integers(-1, 7))
def test_any_token_decodes(raw: list[bytes], scheme: Scheme, kind: int) -> None:
    for text in _strings(*raw).to_list():
        decode_token(text, kind, scheme).encode("utf-8", "surrogateescape")


def test_reads_everything() -> None:
    vocabulary = read_vocabulary(
        _model(
            {
                "model": "llama",
                "tokens": _strings("<unk>", "<s>", "a"),
                "scores": NumberArray(np.array([0, -1, -2.5], dtype="f4")),
                "token_type": _ints(2, 3, 1),
                "bos_token_id": 1,
                "eos_token_id": 1,
                "unknown_token_id": 0,
                "add_bos_token": True,
            }
        )
    )
    assert vocabulary is not None
    assert len(vocabulary) == 3
    assert vocabulary.problems == ()
    assert vocabulary.tokenizer == "llama"
    assert vocabulary.scores is not None
    assert vocabulary.scores.tolist() == [0, -1, -2.5]
    assert vocabulary.types is not None
    assert vocabulary.types.tolist() == [2, 3, 1]
    assert vocabulary.special == {"bos": 1, "eos": 1, "unknown": 0}
    assert vocabulary.special_names(1) == ("bos", "eos")
    assert vocabulary.special_names(2) == ()


def test_no_tokens_is_no_vocabulary() -> None:
    assert read_vocabulary(_model({"model": "llama", "bos_token_id": 1})) is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("tokens", _ints(1, 2, 3)),
        ("tokens", "abc"),
        ("tokens", 7),
        ("tokens", [_strings("a")]),
        ("scores", _strings("a", "b")),
        ("scores", 1.5),
        ("scores", NumberArray(np.array([True, False]))),
        ("scores", NumberArray(np.zeros(1, dtype="f4"))),
        ("scores", NumberArray(np.zeros(9, dtype="f8"))),
        ("scores", NumberArray(np.zeros(0, dtype="f4"))),
        ("token_type", NumberArray(np.zeros(2, dtype="f4"))),
        ("token_type", _ints(1)),
        ("token_type", _ints(1, 3, 5, kind="u8")),
        ("token_type", "x"),
        ("bos_token_id", "x"),
        ("bos_token_id", 2),
        ("bos_token_id", -1),
        ("bos_token_id", 2**64),
        ("bos_token_id", True),
        ("bos_token_id", _ints(1)),
        ("model", 5),
    ],
)
def test_what_is_wrong_is_a_problem(key: str, value: Any) -> None:
    values: dict[str, Any] = {"model": "gpt2", "tokens": _strings("a", "b")}
    vocabulary = read_vocabulary(_model(values | {key: value}))
    assert vocabulary is not None
    assert [problem.where for problem in vocabulary.problems] == [_P + key]
    columns = vocabulary.display_columns()
    assert len(columns) == len(vocabulary) == (0 if key == "tokens" else 2)
    assert vocabulary.special == {}
    for array in (vocabulary.scores, vocabulary.types):
        assert array is None or len(array) == 2


def test_too_few_types_and_scores_are_filled_up() -> None:
    values = {"model": "llama", "tokens": _strings("a", "b"), "token_type": _ints(6)}
    vocabulary = read_vocabulary(_model(values | {"scores": NumberArray(np.array([1.5]))}))
    assert vocabulary is not None
    assert vocabulary.types is not None
    assert vocabulary.types.tolist() == [6, NO_TYPE]
    assert vocabulary.scores is not None
    assert np.isnan(vocabulary.scores[1])
    assert vocabulary.display_columns().type_names == ["byte", ""]


@pytest.mark.filterwarnings("error")
def test_scores_may_be_any_bits() -> None:
    scores = np.array([0x7F800001, 0xFF800000], "<u4").view("<f4")  # a signalling NaN, -inf
    values = {"model": "llama", "tokens": _strings("a", "b"), "scores": NumberArray(scores)}
    vocabulary = read_vocabulary(_model(values))
    assert vocabulary is not None
    assert vocabulary.scores is not None
    assert np.isnan(vocabulary.scores[0])
    assert vocabulary.scores[1] == -np.inf


def test_huge_unsigned_types_do_not_wrap() -> None:
    values = {"model": "llama", "tokens": _strings("a"), "token_type": _ints(2**64 - 1, kind="u8")}
    vocabulary = read_vocabulary(_model(values))
    assert vocabulary is not None
    assert vocabulary.types is not None
    assert vocabulary.types.tolist() == [2**63 - 1]


def test_a_file_that_changed_is_an_explorer_error() -> None:
    def fail() -> Value:
        raise FormatError("changed while it was open")

    model = _model({})
    entry = MetadataEntry(_P + "tokens", "array[string]", 3, fail)
    changed = Model("gguf", Path("m"), (), Metadata([entry]), model.tensors)
    with pytest.raises(FormatError):
        read_vocabulary(changed)


def test_columns_are_safe_to_show() -> None:
    vocabulary = _vocabulary("gpt2", "Ġa", "Ċ", "\x1b[2J", b"\xff\xfe", "x" * 5000, "\u202eabc")
    columns = vocabulary.display_columns()
    assert columns.stored[:4] == ["Ġa", "Ċ", "\\x1b[2J", "\\xff\\xfe"]
    assert columns.decoded[:4] == [" a", "\\n", "\\x1b[2J", "\\xff\\xfe"]
    assert columns.stored[4] == "x" * MAX_SHOWN
    assert columns.lengths.tolist() == [2, 1, 4, 2, MAX_SHOWN, 4]
    assert columns.stored[5] == columns.decoded[5] == "\\u202eabc"
    assert columns.type_names == [""] * 6


_SEARCHED = _vocabulary(
    "gpt2",
    "Ġthe",
    "The",
    "other",
    "Ċ",
    "<|end|>",
    _byte_level("中".encode()),
    "id:x",
    types=[1, 1, 1, 1, 3, 1, 77],
).display_columns()


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("", [0, 1, 2, 3, 4, 5, 6]),
        ("the", [0, 1, 2]),
        ("THE", [0, 1, 2]),
        (" the", [0]),
        ("Ġ", [0]),
        ("\\n", [3]),
        ("\n", [3]),
        ("中", [5]),
        ("id:2", [2]),
        ("id:1-3", [1, 2, 3]),
        ("id:0,4-", [0, 4, 5, 6]),
        ("id:1- the", [1, 2]),
        ('id:0- " the"', [0]),
        ("id:x", [6]),
        ("id:", [0, 1, 2, 3, 4, 5, 6]),
        ("id:99999999999999999", []),
        ("the id:", [0, 1, 2]),
        ("type:control", [4]),
        ("type:con", [4]),
        ("type:3,77", [4, 6]),
        ("type:CONTROL end", [4]),
        ("type:", [0, 1, 2, 3, 4, 5, 6]),
        ("type:,", []),
        ("len>4", [2, 4]),
        ("len>=4 len<5", [0, 6]),
        ("len:1", [3, 5]),
        ("len:4-5 the", [0, 2]),
        ("len=1", [3, 5]),
        ("len>", [0, 1, 2, 3, 4, 5, 6]),
        ('"', []),
        ('""', [0, 1, 2, 3, 4, 5, 6]),
    ],
)
def test_search(text: str, ids: list[int]) -> None:
    found = _SEARCHED.search(text)
    assert found.dtype == np.int64
    assert found.tolist() == ids


@given(
    st.one_of(
        st.text(),
        st.lists(
            st.sampled_from(["id:", "len", "type:", ">", "=", "3", "-", ",", " ", '"', "the", "²"])
        ).map("".join),
    )
)
def test_any_text_can_be_searched(text: str) -> None:
    found = _SEARCHED.search(text)
    assert sorted(set(found.tolist())) == found.tolist()
    assert all(0 <= i < len(_SEARCHED) for i in found.tolist())


def test_nothing_to_search() -> None:
    columns = _vocabulary("gpt2").display_columns()
    for text in ("", "a", "id:1", "type:a", "len>1"):
        assert columns.search(text).tolist() == []


def test_making_columns_can_be_given_up() -> None:
    calls = 0

    def give_up() -> None:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        _vocabulary("llama", *["a"] * 20_000).display_columns(give_up)


@pytest.mark.parametrize("order", ["little", "big"])
def test_vocabularies_of_files(tmp_path: Path, order: Order) -> None:
    keys = [
        (_P + "model", STRING, "gpt2"),
        (_P + "tokens", ARRAY, Array(STRING, ["a", _byte_level(b" b")])),
        (_P + "scores", ARRAY, Array(F32, [0.5, 1.5])),
        (_P + "eos_token_id", U32, 1),
    ]
    with open_gguf(GgufFile(order=order, keys=keys).write(tmp_path / "m.gguf")) as model:
        vocabulary = read_vocabulary(model)
    assert vocabulary is not None
    assert (vocabulary.text(1), vocabulary.special, vocabulary.problems) == (" b", {"eos": 1}, ())
    assert vocabulary.scores is not None
    assert vocabulary.scores.tolist() == [0.5, 1.5]


@pytest.mark.parametrize(("kind", "problems"), [(STRING, 0), (U32, 1)])
def test_a_file_with_an_empty_array_of_tokens(tmp_path: Path, kind: int, problems: int) -> None:
    keys = [(_P + "model", STRING, "bert"), (_P + "tokens", ARRAY, Array(kind, []))]
    with open_gguf(GgufFile(keys=keys).write(tmp_path / "m.gguf")) as model:
        vocabulary = read_vocabulary(model)
    assert vocabulary is not None
    assert len(vocabulary) == len(vocabulary.display_columns()) == 0
    assert len(vocabulary.problems) == problems


_REAL = {
    # special ids, from vocab_expected.json, which the gguf package made
    "ggml-vocab-aquila.gguf": {"bos": 0, "eos": 0, "unknown": 0},
    "ggml-vocab-bert-bge.gguf": {
        "unknown": 100,
        "seperator": 102,
        "padding": 0,
        "cls": 101,
        "mask": 103,
    },
    "ggml-vocab-phi-3.gguf": {"bos": 1, "eos": 32000, "unknown": 0, "padding": 32000},
}


@pytest.fixture(scope="module", params=sorted(_REAL))
def real(request: pytest.FixtureRequest) -> tuple[str, Vocabulary]:
    path = _DATA / request.param
    if not path.exists():
        pytest.skip(f"{path} is not here: the project's shared data is not part of the repository")
    with open_gguf(path) as model:
        vocabulary = read_vocabulary(model)
    assert vocabulary is not None
    return request.param, vocabulary


def test_real_vocabularies(real: tuple[str, Vocabulary]) -> None:
    name, vocabulary = real
    expected = json.loads((_DATA / "vocab_expected.json").read_text())[name]["kv"]
    tokens = expected[_P + "tokens"]
    assert len(vocabulary) == tokens["n"]
    assert vocabulary.tokens[:3] == tokens["first"]
    assert vocabulary.tokenizer == expected[_P + "model"]["value"]
    assert vocabulary.special == _REAL[name]
    assert vocabulary.problems == ()
    assert vocabulary.types is not None
    assert vocabulary.types[:3].tolist() == expected[_P + "token_type"]["first"]
    columns = vocabulary.display_columns()
    assert len(columns.stored) == len(columns.decoded) == len(columns.type_names) == tokens["n"]
    assert "▁" not in "".join(columns.decoded[1000:2000])
    found = [vocabulary.text(i) for i in columns.search('" the" len=4').tolist()]
    assert found.count(" the") == 1
    assert {text.lower() for text in found} == {" the"}


def test_real_byte_level_tokens_are_mostly_text(real: tuple[str, Vocabulary]) -> None:
    name, vocabulary = real
    texts = [vocabulary.text(i) for i in range(0, len(vocabulary), 37)]
    broken = sum(any("\udc80" <= character <= "\udcff" for character in text) for text in texts)
    assert broken < len(texts) / 20, f"{name}: {broken} of {len(texts)} are no UTF-8"
