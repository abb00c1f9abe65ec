"""Any bytes, changed bytes, every cut: an error of the program's own or a model, nothing else."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.errors import ExplorerError, FormatError
from explorer.formats import Model
from explorer.formats.gguf.open import open_gguf
from explorer.formats.limits import MAX_DIMENSIONS
from tests.helpers.gguf_writer import (
    ARRAY,
    F64,
    I32,
    STRING,
    U8,
    U64,
    Array,
    GgufFile,
    Order,
    TensorSpec,
    small_model,
)
from tests.helpers.rewriting import rewrite
from tests.helpers.stopwatch import in_time

VARIANTS = pytest.mark.parametrize(
    ("version", "order"), [(3, "little"), (3, "big"), (1, "little"), (1, "big")]
)


def _look_at_everything(model: Model) -> None:
    """Decode every value and read every tensor, as a person who clicks on everything does."""
    for entry in model.metadata.entries:
        assert 0 <= entry.offset < entry.value_offset <= entry.end <= model.files[0].source.size
        try:
            value = entry.value
        except FormatError:
            continue
        assert (entry.length is None) == isinstance(value, str | int | float)
        if entry.length is not None:
            assert len(value) == entry.length  # type: ignore[arg-type]
    for tensor in model.tensors.rows:
        assert len(tensor.shape) <= MAX_DIMENSIONS
        if tensor.damage is None:
            assert len(tensor.read()) == tensor.nbytes
        else:
            with pytest.raises(FormatError):
                tensor.read()
    assert sum(total.nbytes for total in model.tensors.totals_by_type.values()) == model.nbytes
    assert isinstance(model.name, str | None)
    for problem in model.problems:
        assert problem.what


def _open(path: Path, content: bytes) -> bool:
    """Open bytes and look at everything; return whether they opened."""
    rewrite(path, content)
    started = time.process_time()
    error = None
    try:
        with open_gguf(path) as model:
            _look_at_everything(model)
    except ExplorerError as caught:
        error = caught
    assert in_time(time.process_time() - started, 2.0)
    if error is None:
        return True
    assert error.what
    assert error.path == path
    assert error.offset is None or 0 <= error.offset <= len(content)
    return False


@given(content=st.binary(max_size=200))
def test_any_bytes(tmp_path: Path, content: bytes) -> None:
    _open(tmp_path / "f.gguf", content)


@given(
    version=st.sampled_from([1, 2, 3]),
    order=st.sampled_from(["little", "big"]),
    tensors=st.integers(0, 3),
    keys=st.integers(0, 3),
    content=st.binary(max_size=300),
)
def test_any_bytes_behind_a_good_start(
    *, tmp_path: Path, version: int, order: Order, tensors: int, keys: int, content: bytes
) -> None:
    file = GgufFile(version, order, tensor_count=tensors, key_count=keys)
    _open(tmp_path / "f.gguf", file.header() + content)


@VARIANTS
@given(data=st.data())
def test_changed_bytes(tmp_path: Path, version: int, order: Order, data: st.DataObject) -> None:
    content = bytearray(small_model(version, order).build())
    changes = data.draw(
        st.lists(
            st.tuples(
                st.integers(0, len(content) - 1),
                st.one_of(st.integers(0, 255), st.sampled_from([0, 1, 8, 9, 0x7F, 0x80, 0xFF])),
            ),
            min_size=1,
            max_size=6,
        )
    )
    for place, byte in changes:
        content[place] = byte
    _open(tmp_path / "f.gguf", bytes(content))


@VARIANTS
@given(data=st.data())
def test_bytes_put_in_or_left_out(
    tmp_path: Path, version: int, order: Order, data: st.DataObject
) -> None:
    content = small_model(version, order).build()
    start = data.draw(st.integers(0, len(content)))
    end = data.draw(st.integers(start, min(len(content), start + 40)))
    _open(tmp_path / "f.gguf", content[:start] + data.draw(st.binary(max_size=40)) + content[end:])


@pytest.mark.slow  # some thousand files each
@VARIANTS
def test_every_byte_set_to_its_extremes(tmp_path: Path, version: int, order: Order) -> None:
    """Each byte of the header, one at a time."""
    file = small_model(version, order)
    content = file.build()
    for place in range(len(file.header())):
        for byte in (0x00, 0xFF):
            if content[place] != byte:
                _open(tmp_path / "f.gguf", content[:place] + bytes([byte]) + content[place + 1 :])


@VARIANTS
def test_cut_at_every_offset(tmp_path: Path, version: int, order: Order) -> None:
    """Behind the header, exactly the tensors that do not fit are damaged."""
    file = small_model(version, order)
    content, header = file.build(), len(file.header())
    path = tmp_path / "f.gguf"
    for size in range(len(content)):
        opened = _open(path, content[:size])
        assert opened == (size >= header), size
        if opened:
            with open_gguf(path) as model:
                assert model.problems
                for tensor in model.tensors.rows:
                    assert (tensor.damage is not None) == (tensor.offset + tensor.nbytes > size)


_NAMES = st.one_of(st.text(max_size=30), st.text(min_size=250, max_size=300))
_KEYS = st.lists(
    st.one_of(
        st.tuples(st.just(U64), st.integers(0, (1 << 64) - 1)),
        st.tuples(st.just(F64), st.floats(allow_nan=False)),
        st.tuples(st.just(STRING), st.text(max_size=40)),
        st.tuples(st.just(ARRAY), st.lists(st.text(max_size=12)).map(lambda v: Array(STRING, v))),
        st.tuples(
            st.just(ARRAY),
            st.lists(st.integers(-(1 << 31), (1 << 31) - 1)).map(lambda v: Array(I32, v)),
        ),
    ),
    max_size=8,
)


@given(
    version=st.sampled_from([1, 2, 3]),
    order=st.sampled_from(["little", "big"]),
    values=_KEYS,
    names=st.lists(_NAMES, max_size=100, unique=True),
    data=st.data(),
)
def test_what_is_written_is_read(
    *,
    tmp_path: Path,
    version: int,
    order: Order,
    values: list[tuple[int, object]],
    names: list[str],
    data: st.DataObject,
) -> None:
    most = (1 << 32) - 1 if version == 1 else (1 << 64) - 1
    shapes = st.lists(st.integers(0, most), max_size=4).map(tuple)
    file = GgufFile(
        version,
        order,
        keys=[(f"k{i}", kind, value) for i, (kind, value) in enumerate(values)],
        tensors=[
            TensorSpec(name, data.draw(shapes), i % 50, b"", 32 * i) for i, name in enumerate(names)
        ],
    )
    path = rewrite(tmp_path / "f.gguf", file.build())
    with open_gguf(path) as model:
        for entry, (kind, value) in zip(model.metadata.entries, values, strict=True):
            found = list(entry.value) if kind == ARRAY else entry.value  # type: ignore[arg-type]
            assert found == (value.values if isinstance(value, Array) else value)
        for row, (tensor, spec) in enumerate(zip(model.tensors.rows, file.tensors, strict=True)):
            assert (tensor.name, tensor.shape) == (spec.name, spec.dims[::-1])
            assert tensor.type.id == spec.type_id
            assert tensor.offset == (model.data_offset or 0) + 32 * row
            assert model.tensors.columns.nbytes[row] == tensor.nbytes
            assert model.tensors.columns.parameters[row] == tensor.parameters
            assert model.tensors.columns.types[row] == tensor.type


@pytest.mark.parametrize("order", ["little", "big"])
@pytest.mark.parametrize("version", [1, 3])
def test_a_table_of_many_windows(tmp_path: Path, version: int, order: Order) -> None:
    """More records than one window of the file holds, with names and dimensions that mislead."""
    tensors = []
    for i in range(6000):
        name: str | bytes = f"blk.{i}.weight"
        if i % 7 == 0:
            name = b"\x08" + bytes(version * 3) + b"\x01\0\0\0"  # looks like a length, and a rank
        elif i % 501 == 0:
            name = "long" * 300
        dims = ((64, 8, 3, 1), (24, 2), (17,), ())[i % 4]
        tensors.append(TensorSpec(name, dims, (0, 1, 24, 28)[i % 4], b"", 32 * i))
    file = GgufFile(version, order, keys=[("a", U8, 1)], tensors=tensors)
    path = file.write(tmp_path / "f.gguf")
    with open_gguf(path) as model:
        position = len(file.header()) - sum(
            len(file.record(tensor, place))
            for tensor, place in zip(tensors, file.places(), strict=True)
        )
        for row, (tensor, spec) in enumerate(zip(model.tensors.rows, tensors, strict=True)):
            raw = spec.name.encode() if isinstance(spec.name, str) else spec.name
            assert tensor.name.encode("utf-8", "surrogateescape") == raw
            assert (tensor.shape, tensor.type.id) == (spec.dims[::-1], spec.type_id)
            assert model.files[0].record_offsets[row] == position
            position += len(file.record(spec, 32 * row))
