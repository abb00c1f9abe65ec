"""What two headers differ in: keys, arrays, tensors, vocabulary, texts; and errors by role."""

from __future__ import annotations

import json
import math
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.analysis.differences import MOST_SHOWN, Differences, compare_headers, errors_by_role
from explorer.analysis.differences import compare_texts as diff_texts
from explorer.analysis.errors.compare import Comparison
from explorer.analysis.matching.pairing import match_models
from explorer.errors import SourceError
from explorer.formats import open_model
from explorer.formats.model import Model
from explorer.formats.strict_json import read_members
from explorer.sources import MemorySource
from tests.helpers.gguf_writer import ARRAY, F32, I32, STRING, U32, Array, GgufFile, TensorSpec
from tests.helpers.model_pairs import arrays_of, write_gguf, write_safetensors
from tests.helpers.small_gguf import SmallGguf, model_from

Keys = list[tuple[str | bytes, int, Any]]


def gguf(keys: Keys, tensors: list[TensorSpec] | None = None, **how: Any) -> Model:
    named: Keys = [("general.architecture", STRING, "llama"), *keys]
    return model_from(GgufFile(keys=named, tensors=tensors or [], **how).build())


def differences(one: Keys, other: Keys) -> Differences:
    return compare_headers(gguf(one), gguf(other))


def test_keys_added_changed_and_gone() -> None:
    one: Keys = [("a", U32, 1), ("b", U32, 2), ("c", STRING, "x")]
    other: Keys = [("d", U32, 4), ("b", U32, 3), ("c", STRING, "x")]
    found = differences(one, other)
    assert [(key.key, key.kind) for key in found.keys] == [
        ("a", "gone"),
        ("b", "changed"),
        ("d", "added"),
    ]
    assert found.same_keys == 2  # with the architecture
    assert not found.equal
    assert differences(one, one).equal


def test_the_same_number_in_another_type_is_a_change() -> None:
    (key,) = differences([("a", U32, 7)], [("a", I32, 7)]).keys
    assert (key.kind, key.problem) == ("changed", "")


def test_arrays_are_compared_by_content() -> None:
    one: Keys = [
        ("n", ARRAY, Array(F32, [1, math.nan, 3])),
        ("s", ARRAY, Array(STRING, ["a", "b"])),
    ]
    other: Keys = [
        ("n", ARRAY, Array(F32, [1, math.nan, 4, 5])),
        ("s", ARRAY, Array(STRING, ["a", "b"])),
    ]
    found = differences(one, other)
    (key,) = found.keys
    assert key.elements is not None
    assert key.elements.count == 2
    assert key.elements.places == (2, 3)
    assert (key.elements.before, key.elements.after) == ((3.0, None), (4.0, 5.0))


@pytest.mark.parametrize("how", [{"version": 2}, {"version": 1}, {"order": "big"}])
def test_equal_values_of_other_layouts_are_equal(how: dict[str, Any]) -> None:
    keys: Keys = [
        ("t", ARRAY, Array(STRING, ["a", "bc", ""])),
        ("n", ARRAY, Array(I32, [1, -2])),
        ("x", ARRAY, Array(ARRAY, [Array(I32, [1]), Array(I32, [])])),
        ("f", F32, math.nan),
    ]
    assert compare_headers(gguf(keys), gguf(keys, **how)).equal


def test_nested_arrays_differ_as_a_whole() -> None:
    one: Keys = [("x", ARRAY, Array(ARRAY, [Array(I32, [1])]))]
    other: Keys = [("x", ARRAY, Array(ARRAY, [Array(I32, [2])]))]
    (key,) = differences(one, other).keys
    assert (key.kind, key.elements) == ("changed", None)


@given(
    one=st.lists(st.integers(-2, 2), max_size=12), other=st.lists(st.integers(-2, 2), max_size=12)
)
def test_elements_are_those_that_a_plain_loop_finds(one: list[int], other: list[int]) -> None:
    keys = differences([("n", ARRAY, Array(I32, one))], [("n", ARRAY, Array(I32, other))]).keys
    longest = range(max(len(one), len(other)))
    wanted = [at for at in longest if one[at : at + 1] != other[at : at + 1]]
    if not wanted:
        assert not keys
        return
    elements = keys[0].elements
    assert elements is not None
    assert (list(elements.places), elements.count) == (wanted, len(wanted))


def test_a_value_that_cannot_be_read_is_a_problem_of_its_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one, other = (gguf([("t", ARRAY, Array(STRING, [letter * 9] * 999))]) for letter in "ab")

    def fail(*_: object) -> None:
        raise SourceError("is gone")

    monkeypatch.setattr(MemorySource, "read_into", fail)
    monkeypatch.setattr(MemorySource, "read", fail)
    found = compare_headers(one, other)
    assert [(key.key, key.problem) for key in found.keys] == [
        ("general.architecture", "is gone"),
        ("t", "is gone"),
    ]


TOKENS = "tokenizer.ggml.tokens"


def test_vocabularies_by_id() -> None:
    one = ["<s>", "a", "b", "c", "same"]
    other = ["<s>", "b", "a", "new", "same", "more"]
    found = differences(
        [(TOKENS, ARRAY, Array(STRING, one))], [(TOKENS, ARRAY, Array(STRING, other))]
    ).vocabulary
    assert found is not None
    assert (found.before, found.after, found.same) == (5, 6, 2)
    assert (found.added, found.gone, found.moved, found.left_out) == (2, 1, 2, 0)
    assert found.changes == ((1, "a", "b"), (2, "b", "a"), (3, "c", "new"), (5, None, "more"))


def test_much_of_a_vocabulary_is_counted_not_kept() -> None:
    one, other = ([f"{letter}{n}" for n in range(1000)] for letter in "ab")
    found = differences(
        [(TOKENS, ARRAY, Array(STRING, one))], [(TOKENS, ARRAY, Array(STRING, other))]
    ).vocabulary
    assert found is not None
    assert len(found.changes) == MOST_SHOWN
    assert found.left_out == 1000 - MOST_SHOWN


def test_chat_templates_are_compared_line_by_line() -> None:
    key = "tokenizer.chat_template"
    one = "\n".join(["head", *map(str, range(9)), "tail"])
    other = one.replace("4", "four\nand more")
    (text,) = differences([(key, STRING, one)], [(key, STRING, other)]).texts
    assert text.lines == ("@@", " 2", " 3", "-4", "+four", "+and more", " 5", " 6", "@@")
    assert (text.removed, text.added, text.left_out, text.cut) == (1, 2, 0, False)


def test_a_template_on_one_line_is_compared_in_tags() -> None:
    one = "".join(f"{{% set x{n} = {n} %}}" for n in range(20))
    found = diff_texts("t", one, one.replace("x7 = 7", "x7 = 8"))
    assert [line for line in found.lines if line[0] in "+-"] == [
        "-{% set x7 = 7 %}",
        "+{% set x7 = 8 %}",
    ]


LINES = st.lists(st.sampled_from("abc"), max_size=30)


@given(one=LINES, other=LINES)
def test_lines_add_up(one: list[str], other: list[str]) -> None:
    found = diff_texts("t", "\n".join(one), "\n".join(other))
    counted = [sum(line[0] == sign for line in found.lines) for sign in "-+"]
    assert counted == [found.removed, found.added]
    assert found.added - found.removed == max(1, len(other)) - max(1, len(one))
    if one == other:
        assert counted == [0, 0]


def test_hostile_texts_take_no_time() -> None:
    one, other = ("\n".join(f"{letter}{n}" for n in range(50_000)) for letter in "ab")
    found = diff_texts("t", one, other)
    assert (found.removed, found.added) == (50_000, 50_000)
    assert (len(found.lines), found.left_out) == (MOST_SHOWN, 100_000 - MOST_SHOWN)
    assert diff_texts("t", "%}a" * 500_000, "%}b" * 500_000).cut


def test_tensors_by_name_with_types_and_shapes() -> None:
    def tensors(kind: int, rows: int, name: str) -> list[TensorSpec]:
        size = {0: 128, 1: 64}[kind]
        return [
            TensorSpec("blk.0.attn_q.weight", (32,), kind, bytes(size)),
            TensorSpec("blk.0.attn_k.weight", (4, rows), 0, bytes(16 * rows)),
            TensorSpec("blk.0.attn_v.weight", (4,)),
            TensorSpec(name, (4,)),
        ]

    one = gguf([], tensors(0, 2, "blk.0.old.weight"))
    found = compare_headers(one, gguf([], tensors(1, 3, "new")))
    listed = {
        (tensor.before or tensor.after).name: (
            tensor.kind,
            tensor.type_changed,
            tensor.shape_changed,
        )  # type: ignore[union-attr]
        for tensor in found.tensors
    }
    assert listed == {
        "blk.0.attn_q.weight": ("changed", True, False),
        "blk.0.attn_k.weight": ("changed", False, True),
        "blk.0.attn_v.weight": ("same", False, False),
        "blk.0.old.weight": ("gone", False, False),
        "new": ("added", False, False),
    }
    assert found.count("same") == 1
    sides = found.roles["attn_q"]
    assert [side.types for side in sides] == [{"F32": 1}, {"F16": 1}]
    assert [side.bits_per_weight for side in sides] == [32, 16]


@pytest.fixture
def formats(tmp_path: Path) -> tuple[Path, Path]:
    """A model of Hugging Face with a chat template, and what a converter made of it."""
    start = "model.layers.0."
    arrays = arrays_of(
        {f"{start}mlp.up_proj.weight": (32, 64), f"{start}mlp.down_proj.weight": (64, 32)}
    )
    up, down = arrays.values()
    made = {"blk.0.ffn_up.weight": up, "blk.0.ffn_down.weight": down}
    folder = write_safetensors(tmp_path / "hf", arrays, model_type="llama")
    (folder / "chat_template.jinja").write_text("one\ntwo\n")
    path = write_gguf(tmp_path / "m.gguf", "llama", made, {"blk.0.ffn_up.weight": "Q4_0"})
    return folder, path


def test_formats_are_matched_by_role(formats: tuple[Path, Path]) -> None:
    folder, path = formats
    with open_model(folder) as one, open_model(path) as other:
        found = compare_headers(one, other)
        assert {role: [s.types for s in sides] for role, sides in found.roles.items()} == {
            "ffn_up": [{"F32": 1}, {"Q4_0": 1}],
            "ffn_down": [{"F32": 1}, {"F32": 1}],
        }
        assert [tensor.kind for tensor in found.tensors] == ["changed", "same"]


def test_a_template_beside_the_weights(formats: tuple[Path, Path]) -> None:
    folder, path = formats
    content = path.read_bytes()
    with open_model(folder) as one:
        other = gguf([("tokenizer.chat_template", STRING, "one\nthree\n")])
        (text,) = compare_headers(one, other).texts
        assert [line for line in text.lines if line[0] in "+-"] == ["-two", "+three"]
    assert path.read_bytes() == content


def test_a_template_of_one_model_alone_is_shown_whole(formats: tuple[Path, Path]) -> None:
    with open_model(formats[0]) as one, open_model(formats[1]) as other:
        (text,) = compare_headers(one, other).texts
        assert (text.lines, text.removed, text.added) == (("-one", "-two", "-"), 3, 0)


def test_named_templates_of_a_tokenizer_config(tmp_path: Path) -> None:
    named = [{"name": "default", "template": "a"}, {"name": "tools", "template": "b"}, 7]
    folders = [write_safetensors(tmp_path / name, arrays_of({"a": (4,)})) for name in "xy"]
    (folders[0] / "tokenizer_config.json").write_text(json.dumps({"chat_template": named}))
    (folders[1] / "chat_template.jinja").write_text("a")
    (folders[1] / "additional_chat_templates").mkdir()
    (folders[1] / "additional_chat_templates" / "tools.jinja").write_text("c")
    with open_model(folders[0]) as one, open_model(folders[1]) as other:
        (text,) = compare_headers(one, other).texts
    assert (text.key, text.lines) == ("tokenizer.chat_template.tools", ("-b", "+c"))


def tokenizer(folder: Path, vocabulary: object, added: object = (), **rest: object) -> Path:
    """Write a tokenizer.json with much that is not looked at, beside a tensor."""
    write_safetensors(folder, arrays_of({"a": (4,)}))
    merges = [["]}", '\\"'], ["{", "["]]
    parts = {"normalizer": {"vocab": [1], "model": {"vocab": {"x": 0}}}, "added_tokens": added}
    model = {"type": "BPE", "vocab": vocabulary, "merges": merges}
    content = json.dumps(parts | {"model": model} | rest, indent=1)
    (folder / "tokenizer.json").write_text(content, encoding="utf-8")
    return folder


def tokens_of(tmp_path: Path, vocabulary: object, other: list[str], **rest: object) -> Differences:
    """Compare the vocabulary of a folder with that of a GGUF file."""
    with open_model(tokenizer(tmp_path / "hf", vocabulary, **rest)) as one:
        return compare_headers(one, gguf([(TOKENS, ARRAY, Array(STRING, other))]))


def test_vocabulary_of_a_folder_against_one_of_gguf(tmp_path: Path) -> None:
    added = [{"id": 3, "content": "<end>", "special": True}, {"id": "no"}, 5]
    found = tokens_of(
        tmp_path, {"a": 0, 'q"]': 1, "\u2581é😀": 2}, ["a", "b", "\u2581é😀", "<end>"], added=added
    )
    assert found.vocabulary is not None
    assert found.vocabulary.changes == ((1, 'q"]', "b"),)
    assert (found.vocabulary.same, found.same_tokens, found.problems) == (3, 0, ())


@pytest.mark.parametrize(
    ("vocabulary", "stored"),
    [
        ({"b": 1, "a": 0}, ["a", "b"]),
        ([["a", 0.0], ["b", -1.5]], ["a", "b"]),
        ({"[CLS]": 0, "[SEP]": 1, "the": 2, "##re": 3}, ["[CLS]", "[SEP]", "\u2581the", "re"]),
    ],
)
def test_a_vocabulary_and_what_a_converter_makes_of_it(
    tmp_path: Path, vocabulary: object, stored: list[str]
) -> None:
    found = tokens_of(tmp_path, vocabulary, stored)
    assert (found.vocabulary, found.same_tokens) == (None, len(stored))


def test_ids_without_a_token(tmp_path: Path) -> None:
    found = tokens_of(
        tmp_path, {"a": 0, "c": 2, "far": 1 << 40, "b": -1}, ["a", "[PAD1]", "c", "d"]
    )
    assert found.vocabulary is not None
    assert found.vocabulary.changes == ((1, None, "[PAD1]"), (3, None, "d"))
    assert (found.vocabulary.same, found.vocabulary.added, found.vocabulary.left_out) == (2, 2, 0)


def test_vocabularies_of_two_folders(tmp_path: Path) -> None:
    folders = [tokenizer(tmp_path / "x", {"a": 0, "b": 1}), tokenizer(tmp_path / "y", {"a": 0})]
    write_safetensors(tmp_path / "z", arrays_of({"a": (4,)}))
    (tmp_path / "z" / "vocab.json").write_text(json.dumps({"a": 0}))
    with open_model(folders[0]) as one, open_model(folders[1]) as other:
        found = compare_headers(one, other)
        assert found.vocabulary is not None
        assert found.vocabulary.changes == ((1, "b", None),)
        with open_model(tmp_path / "z") as older:
            assert compare_headers(other, older).same_tokens == 1


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"", "ends within"),
        (b'{"model": {"vocab": {"a": 0}', "ends within"),
        (b'{"model": {"vocab": {"a": 0,}}}', "broken JSON"),
        (b'{"model": {"vocab": {"\\ud800": 0}}}', "surrogate"),
        (b'{"model": {"vocab": {"\xff": 0}}}', "UTF-8"),
        (b'{"model": {"vocab": ' + b"[" * 200 + b"]" * 200 + b"}}", "nested"),
        (b'{"model": {"merges": []}}', "no vocabulary"),
        (b"[" * 100_000, "ends within"),
        (b'{"a": "' + b'\\"' * 2_000_000, "does not end"),  # each mark begins a string
        (b'{"model": {"vocab": {"a": 0}}, "b', "does not end"),
    ],
)
def test_a_damaged_tokenizer_is_said_and_left_out(
    tmp_path: Path, content: bytes, what: str
) -> None:
    folder = tokenizer(tmp_path / "hf", {})
    (folder / "tokenizer.json").write_bytes(content)
    with open_model(folder) as one:
        found = compare_headers(one, gguf([(TOKENS, ARRAY, Array(STRING, ["a"]))]))
    assert (found.vocabulary, found.same_tokens) == (None, 0)
    (problem,) = found.problems
    assert problem.where == "tokenizer.json"
    assert what in problem.what


@given(tokens=st.lists(st.text(max_size=6), unique=True, max_size=20), data=st.data())
def test_members_are_those_of_the_whole_text(tokens: list[str], data: st.DataObject) -> None:
    text = st.text('a"\\]}[{:,\n', max_size=6)
    anything = st.recursive(
        st.none() | st.integers() | text,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    )
    whole = {"x": data.draw(anything), "model": {"y": data.draw(anything)}}
    whole["model"]["vocab"] = {token: place for place, token in enumerate(tokens)}
    ascii_only, indent = data.draw(st.booleans()), data.draw(st.none() | st.just(2))
    with NamedTemporaryFile() as file:
        file.write(json.dumps(whole, ensure_ascii=ascii_only, indent=indent).encode())
        file.flush()
        wanted = [("model", "vocab"), ("x",), ("nothing",), ("model", "y", "z")]
        found = read_members(Path(file.name), wanted)
    assert found.pop(("model", "vocab")) == whole["model"]["vocab"]
    kept = {("x",): whole["x"]} if isinstance(whole["x"], dict | list) else {}
    inner = whole["model"]["y"]
    if isinstance(inner, dict) and isinstance(inner.get("z"), dict | list):
        kept["model", "y", "z"] = inner["z"]
    assert found == kept


def test_errors_by_role_are_those_of_their_weights(formats: tuple[Path, Path]) -> None:
    folder, path = formats
    with open_model(folder) as one, open_model(path) as other:
        rows = Comparison(match_models(one, other).matches).rows(2)
        found = errors_by_role((one, other), rows)
        reference = one.tensors["model.layers.0.mlp.up_proj.weight"].dequantize().astype(np.float64)
        error = other.tensors["blk.0.ffn_up.weight"].dequantize() - reference
    assert set(found.roles) == {"ffn_up", "ffn_down"}
    assert found.roles["ffn_down"].rmse == 0
    assert found.roles["ffn_up"].rmse == pytest.approx(np.sqrt(np.mean(error**2)), rel=1e-6)
    assert found.total.count == 2 * 32 * 64


@pytest.mark.parametrize("kind", ["added", "gone"])
def test_an_output_of_its_own_is_no_second_token_embedding(tmp_path: Path, kind: str) -> None:
    """Of the other model the token embedding is the output too; it is counted once."""
    tied = arrays_of({"token_embd.weight": (64, 32), "blk.0.attn_q.weight": (32, 32)})
    untied = tied | {"output.weight": tied["token_embd.weight"]}
    pair = [("one", tied), ("other", untied)][:: 1 if kind == "added" else -1]
    paths = [write_gguf(tmp_path / f"{name}.gguf", "llama", arrays) for name, arrays in pair]
    with open_model(paths[0]) as one, open_model(paths[1]) as other:
        found = compare_headers(one, other)
        rows = Comparison(match_models(one, other).matches).rows()
        errors = errors_by_role((one, other), rows)
    assert not found.equal
    (output,) = (tensor for tensor in found.tensors if tensor.kind != "same")
    assert (output.role, output.kind) == ("output", kind)
    for side, (_, arrays) in enumerate(pair):
        sides = {role: sides[side] for role, sides in found.roles.items()}
        counted = {role: part.parameters for role, part in sides.items() if part.parameters}
        assert counted == {name.split(".")[-2]: array.size for name, array in arrays.items()}
    assert {role: one.count for role, one in errors.roles.items()} == {
        "token_embd": 64 * 32,
        "output": 64 * 32,
        "attn_q": 32 * 32,
    }


def test_an_empty_model_is_no_fault() -> None:
    empty = model_from(SmallGguf().write())
    assert compare_headers(empty, empty).equal
    found = compare_headers(empty, gguf([], [TensorSpec("a")]))
    assert (found.count("added"), len(found.keys)) == (1, 1)
