"""An open model with what its views need, made in a worker: views never wait for a disk."""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from itertools import compress, repeat
from operator import contains
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from explorer.errors import ExplorerError
from explorer.formats import MetadataEntry, Model
from explorer.formats.columns import TensorArrays, tensor_arrays, text_ranks
from explorer.formats.facts import Facts, describe
from explorer.present.model import value_text
from explorer.qt.jobs import Job
from explorer.text import bytes_text, count_text

# Names that are searched as one types: which hold every word, and which of them are best.
#
# Everything that a search needs is made once, in a worker. 262,144 names are then searched in
# some hundredths of a second, in pieces that leave room for the window and for a change of mind.


_PIECE: Final = 16_384
_NO_WORD: Final = re.compile(r"[^\w\n]|_")


class Match(NamedTuple):
    """A name that was found; the smaller, the better.

    Attributes:
        misses: Words of the query that are only a part of a word of the name.
        inside: Whether the name begins with something else than the query's first word.
        rank: Place of the name in natural order.
        position: Position of the name.
    """

    misses: int
    inside: bool
    rank: int
    position: int


@dataclass(frozen=True, eq=False)
class NameList:
    """Names with what a search needs.

    Attributes:
        folded: The names in lower case.
        ranks: Place of each in natural order, int64 [n].
    """

    folded: Sequence[str]
    ranks: NDArray[np.int64]
    _spaced: Sequence[str]  # " blk 0 attn norm weight ": a word is whole if blanks are around it

    def __len__(self) -> int:
        return len(self.folded)

    def search(
        self, words: Sequence[str], most: int, check: Callable[[], None] = lambda: None
    ) -> tuple[list[Match], int]:
        """Find the names that hold every word.

        Args:
            words: In lower case; none finds every name.
            most: Most matches to return.
            check: Called every few thousand names; raises to give up.

        Returns:
            The best matches in order, and the number of all.
        """
        if not words:
            count = len(self)
            first = range(min(most, count))
            return [Match(0, False, position, position) for position in first], count
        keys, positions = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        for start in range(0, len(self), _PIECE):
            check()
            rows, key = self._search_piece(words, start)
            positions.append(rows)
            keys.append(key)
        return self._best(np.concatenate(keys), np.concatenate(positions), most)

    def _search_piece(
        self, words: Sequence[str], start: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return where the names are that a piece holds, and twice the misses, plus 1 if inside."""
        stop = start + _PIECE
        names, spaced = self.folded[start:stop], self._spaced[start:stop]
        rows = np.arange(start, start + len(names))
        for word in words:
            found = bytes(map(contains, names, repeat(word)))
            rows = rows[np.frombuffer(found, np.bool_)]
            names, spaced = list(compress(names, found)), list(compress(spaced, found))
        misses = np.zeros(len(rows), dtype=np.int64)
        for word in words:
            whole = bytes(map(contains, spaced, repeat(f" {_NO_WORD.sub(' ', word)} ")))
            misses += ~np.frombuffer(whole, np.bool_)
        starts = np.frombuffer(bytes(map(str.startswith, names, repeat(words[0]))), np.bool_)
        return rows, 2 * misses + ~starts

    def _best(
        self, keys: NDArray[np.int64], positions: NDArray[np.int64], most: int
    ) -> tuple[list[Match], int]:
        count = len(positions)
        ranks = self.ranks[positions]
        whole_keys = keys * (len(self) + 1) + ranks  # a rank is below the number of names
        chosen = np.arange(count)
        if count > most:
            chosen = np.argpartition(whole_keys, most)[:most]
        chosen = chosen[np.lexsort((positions[chosen], whole_keys[chosen]))]
        matches = [
            Match(key >> 1, bool(key & 1), rank, position)
            for key, rank, position in zip(
                keys[chosen].tolist(),
                ranks[chosen].tolist(),
                positions[chosen].tolist(),
                strict=True,
            )
        ]
        return matches, count


def name_list(
    folded: Sequence[str],
    ranks: NDArray[np.int64] | None = None,
    check: Callable[[], None] = lambda: None,
) -> NameList:
    """Make names ready for searching.

    Args:
        folded: Any texts, in lower case.
        ranks: Place of each in natural order, int64 [n], if known.
        check: Called every few thousand names; raises to give up.
    """
    spaced: list[str] = []
    for start in range(0, len(folded), _PIECE):
        check()
        names = folded[start : start + _PIECE]
        pieces = _NO_WORD.sub(" ", "\n".join(names)).split("\n")  # in one go: five times faster
        if len(pieces) != len(names):
            pieces = [_NO_WORD.sub(" ", name.replace("\n", " ")) for name in names]
        spaced += [f" {piece} " for piece in pieces]
    return NameList(folded, text_ranks(folded, check) if ranks is None else ranks, spaced)


_PREVIEW_CHARACTERS = 160


@dataclass(frozen=True, eq=False)
class Document:
    """One open model.

    Attributes:
        path: What the user opened.
        model: The model.
        facts: What it is.
        arrays: Columns of its tensor table, for sorting and filtering.
        previews: A line of text for the value of each metadata entry.
        key_names: The metadata keys, ready for searching.
        tensor_names: The tensors' names, ready for searching.
        title: What to call it in lists.
    """

    path: Path
    model: Model
    facts: Facts
    arrays: TensorArrays
    previews: tuple[str, ...]
    key_names: NameList
    tensor_names: NameList
    title: str

    @property
    def summary(self) -> str:
        """A few words about it."""
        facts = self.facts
        parts = (
            facts.file_type or (count_text(facts.parameters) if facts.parameters else None),
            bytes_text(facts.nbytes) if facts.nbytes else None,
        )
        return " · ".join(part for part in parts if part)


def load_document(path: Path, job: Job) -> Document:
    """Open a model and make its columns; called in a worker.

    Raises:
        ExplorerError: It cannot be opened.
    """
    from explorer.formats import open_model  # noqa: PLC0415 - the readers load in the worker

    model = open_model(path)
    try:
        job.check()
        facts = describe(model)
        arrays = tensor_arrays(model.tensors, job.check)
        previews = []
        for entry in model.metadata.entries:
            job.check()
            previews.append(_preview(model, entry))
        keys = [entry.key.lower() for entry in model.metadata.entries]
        key_names = name_list(keys, check=job.check)
        tensor_names = name_list(arrays.names, arrays.name_ranks, job.check)
    except BaseException:
        model.close()
        raise
    return Document(
        path, model, facts, arrays, tuple(previews), key_names, tensor_names, _title(path)
    )


def _title(path: Path) -> str:
    """Return the name that users know: of a manifest or a snapshot it is not the file's."""
    from explorer.formats.ollama.manifest import is_manifest_path, name_of  # noqa: PLC0415
    from explorer.formats.side_files import HUB_REPOSITORY  # noqa: PLC0415 - as above

    if is_manifest_path(path):
        return str(name_of(path))
    repository = path.parents[1].name if len(path.parents) > 1 else ""
    if path.parent.name == "snapshots" and repository.startswith(HUB_REPOSITORY):
        return repository.removeprefix(HUB_REPOSITORY).replace("--", "/")
    return path.name


def _preview(model: Model, entry: MetadataEntry) -> str:
    try:
        return value_text(entry, _PREVIEW_CHARACTERS, model)
    except ExplorerError as error:
        return f"({error.what})"


# What was worked out lately, so that coming back to it takes no time; bounded, for any thread.


class Recent:
    """Keeps the results that were used last.

    Args:
        most: How many results are kept.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._results: OrderedDict[Hashable, object] = OrderedDict()

    def __len__(self) -> int:
        return len(self._results)

    def get(self, key: Hashable) -> object | None:
        """Return a result, or None if it is not kept."""
        with self._lock:
            found = self._results.get(key)
            if found is not None:
                self._results.move_to_end(key)
            return found

    def put(self, key: Hashable, result: object) -> None:
        """Keep a result; the one not used for longest goes."""
        with self._lock:
            self._results[key] = result
            self._results.move_to_end(key)
            while len(self._results) > self._most:
                self._results.popitem(last=False)
