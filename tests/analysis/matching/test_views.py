"""Views against NumPy: slices, permutations and joins, read in any runs."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from explorer.analysis.matching import views as view_reader
from explorer.analysis.matching.views import TensorPart, TensorView, ViewReader
from explorer.formats import Tensor
from tests.helpers.tensors import float_tensor


def _counted(*shape: int) -> tuple[Tensor, NDArray[np.float32]]:
    values = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    return float_tensor(values), values


def _read(view: TensorView, *cuts: int) -> NDArray[np.float32]:
    reader = ViewReader(view)
    out = np.full(view.parameters, np.nan, np.float32)
    places = [0, *sorted(cuts), view.parameters]
    for start, stop in pairwise(places):
        reader.read_into(start, out[start:stop])
    return out.reshape(view.shape)


def _view(*parts: TensorPart) -> TensorView:
    shape = parts[0].shape if len(parts) == 1 else (sum(part.parameters for part in parts),)
    return TensorView("view", shape, parts)


@st.composite
def _parts(draw: st.DrawFn) -> tuple[TensorPart, NDArray[np.float32]]:
    """Return a part and the array that it should be."""
    shape = draw(st.lists(st.integers(1, 7), min_size=1, max_size=4))
    tensor, array = _counted(*shape)
    part = TensorPart.whole(tensor)
    for _ in range(draw(st.integers(0, 3))):
        if draw(st.booleans()):
            order = draw(st.permutations(range(array.ndim)))
            part, array = part.transposed(*order), array.transpose(order)
        else:
            dimension = draw(st.integers(0, array.ndim - 1))
            size = array.shape[dimension]
            start = draw(st.integers(0, size - 1))
            stop = draw(st.integers(start + 1, size))
            step = draw(st.integers(1, 3))
            part = part.sliced(dimension, start, stop, step)
            place = [slice(None)] * array.ndim
            place[dimension] = slice(start, stop, step)
            array = array[tuple(place)]
    return part, array


@given(_parts(), st.data(), st.sampled_from([1, 3, 16, 1 << 20]))
def test_any_strides(
    made: tuple[TensorPart, NDArray[np.float32]], data: st.DataObject, window: int
) -> None:
    part, array = made
    assert part.shape == array.shape
    cuts = data.draw(st.lists(st.integers(0, part.parameters), max_size=3))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(view_reader, "WINDOW_WEIGHTS", window)
        patch.setattr(view_reader, "GATHERED_WEIGHTS", window)
        np.testing.assert_array_equal(_read(_view(part.added(0.5)), *cuts), array + 0.5)


def test_parts_one_behind_the_other() -> None:
    (one, first), (two, second) = _counted(3, 4), _counted(2, 4)
    view = TensorView("both", (5, 4), (TensorPart.whole(one), TensorPart.whole(two)))
    joined = np.concatenate((first, second))
    for cuts in ((), (1,), (11, 12, 13), (12,), (5, 19)):
        np.testing.assert_array_equal(_read(view, *cuts), joined)
    assert view.tensors == (one, two)
    assert view.type_name == "F32"


def test_a_large_matrix_is_transposed_in_few_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    tensor, array = _counted(300, 200)
    monkeypatch.setattr(view_reader, "WINDOW_WEIGHTS", 300 * 50)
    monkeypatch.setattr(view_reader, "GATHERED_WEIGHTS", 300 * 50)
    sizes: list[int] = []
    read_into = view_reader.WeightReader.read_into

    def counted(self: object, start: int, out: NDArray[np.float32], check: object = None) -> None:
        sizes.append(out.size)
        read_into(self, start, out)  # type: ignore[arg-type]

    monkeypatch.setattr(view_reader.WeightReader, "read_into", counted)
    found = _read(_view(TensorPart.whole(tensor).transposed(1, 0)), 1000, 30_000)
    np.testing.assert_array_equal(found, array.T)
    assert max(sizes) <= 300 * 50
    assert sum(sizes) <= 2 * array.size
    assert len(sizes) <= 8 * 300


def test_what_does_not_fit_is_refused() -> None:
    tensor, _ = _counted(4, 6)
    part = TensorPart.whole(tensor)
    for wrong in (
        lambda: part.sliced(0, 0, 5),
        lambda: part.sliced(1, 3, 2),
        lambda: part.reshaped(5, 5),
        lambda: part.transposed(1, 0).reshaped(24),
        lambda: TensorView("short", (3, 6), (part,)),
    ):
        with pytest.raises(ValueError, match=r"of|cannot|fill"):
            wrong()
    with pytest.raises(IndexError):
        ViewReader(TensorView.of(tensor)).read_into(20, np.empty(5, np.float32))
