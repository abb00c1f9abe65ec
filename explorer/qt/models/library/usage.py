"""Which blobs each model of a store uses, so that what several of them share is counted once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from explorer.stores import Blob


class Usage:
    """The blobs of one store, as arrays: a model of tensor blobs may have 10,000 of them.

    Args:
        blobs: The blobs, each once.
    """

    def __init__(self, blobs: Sequence[Blob]) -> None:
        self._nbytes = np.array([blob.nbytes for blob in blobs], np.int64)
        self._shared = np.array([len(blob.used_by) > 1 for blob in blobs], np.bool_)
        self._digests = {blob.digest: place for place, blob in enumerate(blobs)}
        places: dict[str, list[int]] = {}
        for place, blob in enumerate(blobs):
            for name in blob.used_by:
                places.setdefault(name, []).append(place)
        self._places = {name: np.array(own, np.intp) for name, own in places.items()}

    def shared_bytes(self, name: str) -> int:
        """Return how many of a model's bytes other models use too."""
        places = self._places.get(name)
        if places is None:
            return 0
        return int(self._nbytes[places[self._shared[places]]].sum())

    def total(self, names: Iterable[str], digests: Iterable[str] = ()) -> int:
        """Return the bytes of all blobs that models use, and of further blobs, each once."""
        return int(self._nbytes[self._marks(names, digests)].sum())

    def _marks(self, names: Iterable[str], digests: Iterable[str]) -> NDArray[np.bool_]:
        marks = np.zeros(len(self._nbytes), np.bool_)
        for name in names:
            places = self._places.get(name)
            if places is not None:
                marks[places] = True
        for digest in digests:
            place = self._digests.get(digest)
            if place is not None:
                marks[place] = True
        return marks
