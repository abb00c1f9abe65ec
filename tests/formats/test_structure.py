"""Fields of a file's bytes; what is expected is worked out from docs/gguf.md, section 1."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.errors import FormatError
from explorer.formats import structure as structure_elements
from explorer.formats.model import Metadata, MetadataEntry, Model, ModelFile
from explorer.formats.structure import FieldKind, Structure
from explorer.formats.tensors import Extent, Tensor, TensorColumns, TensorTable
from explorer.quantization import ggml_type
from explorer.sources import MemorySource
from tests.helpers.slow_sources import BrokenSource
from tests.helpers.small_gguf import SmallGguf, example, model_from

NUMBERS = st.integers(-40, 400)


def assert_tiles(structure: Structure) -> None:
    """Every byte of the file belongs to one field, also as seen through small windows."""
    fields = structure.fields(0, structure.size_bytes)
    position = 0
    starts, ends = [field.offset for field in fields], [field.end for field in fields]
    for field in fields:
        assert field.offset == position
        assert field.nbytes > 0
        position = field.end
    assert position == structure.size_bytes
    for start in range(0, structure.size_bytes, 7):
        window = structure.fields(start, start + 16)
        stop = min(start + 16, structure.size_bytes)
        assert window == fields[bisect_right(ends, start) : bisect_left(starts, stop)]
    for field in fields:
        assert structure.field_at(field.offset) == field
        assert structure.field_at(field.end - 1) == field


def kinds_of(structure: Structure, *, key: str | None = None, row: int | None = None) -> list[str]:
    return [
        f.kind.value
        for f in structure.fields(0, structure.size_bytes)
        if (f.key, f.tensor_row) == (key, row)
    ]


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("big", [False, True])
def test_names_every_field_of_a_gguf_file(version: int, big: bool) -> None:
    if big and version == 1:
        pytest.skip("big-endian files came with version 3")
    raw = example(version, big=big).write()
    structure = Structure(model_from(raw))
    assert_tiles(structure)
    width = 4 if version == 1 else 8
    head = structure.fields(0, 8 + 2 * width)
    assert [(f.kind.value, f.offset, f.nbytes) for f in head] == [
        ("magic", 0, 4),
        ("version", 4, 4),
        ("count", 8, width),
        ("count", 8 + width, width),
    ]
    assert kinds_of(structure, key="general.architecture") == [
        "length", "key", "type", "length", "value",
    ]  # fmt: skip
    assert kinds_of(structure, key="llama.block_count") == ["length", "key", "type", "value"]
    array = ["length", "key", "type", "type", "count"]
    assert kinds_of(structure, key="some.numbers") == [*array, "value"]
    structure.prepare()
    assert kinds_of(structure, key="some.numbers") == [*array, "value", "value", "value"]
    texts = ["length", "value", "length", "length", "value"]  # the second one is empty
    assert kinds_of(structure, key="tokenizer.ggml.tokens") == [*array, *texts]
    assert_tiles(structure)
    record = ["length", "name", "count", "dims", "type", "offset"]
    assert kinds_of(structure, row=2) == [*record, "tensor_data"]


def test_fields_hold_the_bytes_they_name() -> None:
    raw = example().write()
    structure = Structure(model_from(raw))

    def bytes_of(kind: str, label: str) -> bytes:
        fields = structure.fields(0, len(raw))
        (field,) = [f for f in fields if f.kind.value == kind and f.label.startswith(label)]
        return raw[field.offset : field.end]

    assert bytes_of("value", "text of general.architecture") == b"llama"
    assert bytes_of("key", "llama.block_count") == b"llama.block_count"
    assert bytes_of("value", "llama.block_count") == b"\2\0\0\0"
    assert bytes_of("value", "elements of some.numbers") == b"\1\0\0\0\2\0\0\0\3\0\0\0"
    assert bytes_of("name", "third") == b"third.weight"
    assert bytes_of("dims", "third.weight") == (2).to_bytes(8, "little") * 2
    assert bytes_of("tensor_data", "first") == bytes(range(16))
    assert bytes_of("tensor_data", "second") == bytes(range(32, 64))
    assert bytes_of("length", "key general.arch") == (20).to_bytes(8, "little")


def test_each_element_of_a_small_array_is_a_field(monkeypatch: pytest.MonkeyPatch) -> None:
    most = 50
    monkeypatch.setattr(structure_elements, "MOST_ELEMENTS", most)
    numbers = list(range(most))
    texts = ["a", "", "ü€", "\udcff"]  # the last one is a byte that is no UTF-8
    raw = SmallGguf(
        keys=[("few", numbers), ("many", [*numbers, 0]), ("texts", texts), ("none", [])]
    ).write()
    structure = Structure(model_from(raw))
    structure.prepare()
    assert_tiles(structure)
    fields = structure.fields(0, len(raw))

    def values(key: str) -> list[bytes]:
        return [raw[f.offset : f.end] for f in fields if f.key == key and f.kind is FieldKind.VALUE]

    assert values("few") == [number.to_bytes(4, "little") for number in numbers]
    assert [len(value) for value in values("many")] == [4 * (most + 1)]
    assert values("texts") == [b"a", "ü€".encode(), b"\xff"]
    assert values("none") == []
    (third,) = [f for f in fields if f.label == "element 2 of texts"]
    assert (third.key, raw[third.offset : third.end]) == ("texts", "ü€".encode())


def test_long_texts_and_texts_that_cannot_be_read_stay_in_one_piece() -> None:
    keys = [("long", ["x" * 40_000, "y" * 40_000]), ("short", ["a", "b"])]
    source = BrokenSource(SmallGguf(keys=keys).write(), broken_from=1 << 30)
    structure = Structure(model_from(source))
    source.broken_from = 0
    structure.prepare()
    assert kinds_of(structure, key="long") == kinds_of(structure, key="short")
    assert kinds_of(structure, key="long")[-2:] == ["count", "value"]
    assert_tiles(structure)


@pytest.mark.parametrize("versions", [((1, False), (3, True)), ((3, True), (1, False))])
def test_each_shard_has_its_own_version_and_byte_order(
    versions: tuple[tuple[int, bool], ...],
) -> None:
    raws = [
        SmallGguf(
            version, big, keys=[("split.no", index)], tensors=[(f"t{index}", (4,), 0, 0)],
            data=bytes(16),
        ).write()
        for index, (version, big) in enumerate(versions)
    ]  # fmt: skip
    model = model_from(*raws)
    for index, (version, big) in enumerate(versions):
        assert (model.files[index].version, model.files[index].byte_order) == (
            version,
            "big" if big else "little",
        )
        structure = Structure(model, index)
        assert_tiles(structure)
        kinds = kinds_of(structure, row=index)
        assert kinds == ["length", "name", "count", "dims", "type", "offset", "tensor_data"]
        (name,) = [f for f in structure.fields(0, len(raws[index])) if f.kind is FieldKind.NAME]
        assert raws[index][name.offset : name.end] == b"t%d" % index


def test_padding_is_distinguished_from_unused_bytes() -> None:
    raw = example().write()
    model = model_from(raw)
    structure = Structure(model)
    data = model.files[0].header_bytes
    gaps = {
        f.offset - data: (f.kind.value, f.nbytes)
        for f in structure.fields(0, len(raw))
        if f.kind in (FieldKind.PADDING, FieldKind.UNUSED)
    }
    table_end = model.files[0].table_end
    assert gaps == {
        table_end - data: ("padding", data - table_end),
        16: ("padding", 16),  # up to tensor "second"
        64: ("unused", 64),  # a hole
        144: ("unused", 22),  # 16 that could be padding and "behind"
    }


def test_shows_metadata_of_later_shards_as_one_field() -> None:
    first = SmallGguf(keys=[("a", 1)], tensors=[("x", (4,), 0, 0)], data=bytes(16))
    second = SmallGguf(
        keys=[("split.no", 1), ("split.count", 2)], tensors=[("y", (4,), 0, 0)], data=bytes(16)
    )
    model = model_from(first.write(), second.write())
    structure = Structure(model, 1)
    assert_tiles(structure)
    labels = [f.label for f in structure.fields(0, structure.size_bytes)]
    assert labels.count("metadata of this shard") == 1
    assert [
        f.tensor_row for f in structure.fields(0, 10**9) if f.kind is FieldKind.TENSOR_DATA
    ] == [1]
    assert Structure(model, 0).field_at(24) == Structure(model, 0).fields(24, 25)[0]


def test_gives_a_tensor_of_unknown_size_the_bytes_up_to_the_next() -> None:
    file = SmallGguf(
        tensors=[("known", (4,), 0, 64), ("odd", (4,), 999, 0), ("last", (4,), 999, 96)],
        data=bytes(128),
    )
    model = model_from(file.write())
    structure = Structure(model)
    assert_tiles(structure)
    data = model.files[0].header_bytes
    found = [
        (f.offset - data, f.nbytes, f.tensor_row)
        for f in structure.fields(data, structure.size_bytes)
        if f.kind is FieldKind.TENSOR_DATA
    ]
    assert found == [(0, 64, 1), (64, 16, 0), (96, 32, 2)]


def test_cuts_tensors_that_overlap_or_leave_the_file() -> None:
    file = SmallGguf(
        tensors=[
            ("a", (16,), 0, 0),
            ("b", (16,), 0, 32),
            ("c", (1 << 40,), 0, 64),
            ("d", (4,), 0, 1 << 62),
        ],
        data=bytes(100),
    )
    structure = Structure(model_from(file.write()))
    assert_tiles(structure)
    labels = [f.label for f in structure.fields(0, structure.size_bytes)]
    assert any("first 32 bytes are another tensor's too" in label for label in labels)


def test_has_no_field_outside_the_file() -> None:
    structure = Structure(model_from(example().write()))
    assert structure.field_at(-1) is None
    assert structure.field_at(structure.size_bytes) is None
    assert structure.fields(10, 10) == []
    assert structure.fields(20, 10) == []


def test_can_be_cancelled_while_it_is_prepared() -> None:
    structure = Structure(model_from(example().write()))

    class StoppedError(Exception):
        pass

    def stop() -> None:
        raise StoppedError

    with pytest.raises(StoppedError):
        structure.prepare(stop)
    structure.prepare()
    assert_tiles(structure)


def hand_made(
    content: bytes, format_name: str, extents: list[list[tuple[int, int]]], numbers: list[int]
) -> Model:
    """Return a model as no reader would: places are any numbers."""
    source = MemorySource(content)
    count = len(extents)
    kind = ggml_type(0)
    columns = TensorColumns(
        [f"t{i}" for i in range(count)], [(1,)] * count, [kind] * count, [1] * count, [1] * count
    )

    def build(row: int) -> Tensor:
        places = tuple(Extent(source, at, nbytes) for at, nbytes in extents[row])
        damage = "odd" if row % 2 else None
        return Tensor(f"t{row}", (1,), kind, places, 1, damage=damage)

    a, b, c, d, e, f, g, h = numbers
    entries = [
        MetadataEntry("one", "uint32", None, lambda: 1, a, b, c),
        MetadataEntry("two", "array[int32]", 3, lambda: [1], d, e, f),
    ]
    version, alignment = abs(a) % 3 + 1, abs(b) % 40 or 1
    file = ModelFile(source, g, h, numbers[:count], e, 0, version, alignment=alignment)
    return Model(
        format=format_name,  # type: ignore[arg-type]
        path=Path("x"),
        files=(file,),
        metadata=Metadata(entries),
        tensors=TensorTable(columns, build),
        version=version,
        alignment=alignment,
    )


@given(
    st.integers(0, 300),
    st.sampled_from(["gguf", "safetensors", "ollama"]),
    st.lists(st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=3), max_size=6),
    st.lists(NUMBERS, min_size=8, max_size=8),
)
def test_tiles_the_file_whatever_the_model_claims(
    size: int, format_name: str, extents: list[list[tuple[int, int]]], numbers: list[int]
) -> None:
    structure = Structure(hand_made(bytes(size), format_name, extents, numbers))
    assert_tiles(structure)
    structure.prepare()
    assert_tiles(structure)


@given(st.data())
def test_tiles_a_file_with_changed_bytes(data: st.DataObject) -> None:
    raw = bytearray(example(data.draw(st.sampled_from([1, 2, 3]))).write())
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(8, len(raw) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(8, len(raw)))
    try:
        model = model_from(bytes(raw[:cut]))
    except FormatError:
        return
    structure = Structure(model)
    structure.prepare()
    assert_tiles(structure)


def test_describes_a_safetensors_file() -> None:
    header = b'{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}} '
    source = MemorySource(len(header).to_bytes(8, "little") + header + bytes(20))
    start = 8 + len(header)
    columns = TensorColumns(["a"], [(2,)], [ggml_type(0)], [2], [12])

    def build(row: int) -> Tensor:
        parts = (Extent(source, start, 8), Extent(source, start + 12, 4))
        return Tensor("a", (2,), ggml_type(0), parts, 2)

    file = ModelFile(source, start, 8)
    model = Model("safetensors", Path("x"), (file,), Metadata(), TensorTable(columns, build))
    structure = Structure(model)
    assert_tiles(structure)
    assert [(f.kind.value, f.nbytes) for f in structure.fields(0, source.size)] == [
        ("length", 8),
        ("header_text", len(header)),
        ("tensor_data", 8),
        ("unused", 4),
        ("tensor_data", 4),
        ("unused", 4),
    ]
