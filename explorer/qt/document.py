"""An open model with what its views need, made in a worker: views never wait for a disk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from explorer.formats import Model, Problem
from explorer.formats.columns import TensorArrays, tensor_arrays, text_ranks
from explorer.formats.facts import Facts, describe
from explorer.model_files import hub_name
from explorer.present.model import kind_of
from explorer.present.tables.metadata import Key, keys_of
from explorer.qt.jobs import Job
from explorer.sources import Address
from explorer.text import bytes_text, count_text, plain_text

if TYPE_CHECKING:
    from explorer.present.quantization import DeclaredQuantization

_PREVIEW_CHARACTERS = 160


@dataclass(frozen=True, eq=False)
class KeyColumns:
    """The metadata as a table, a row for each entry: a hostile file has 60,000 of them."""

    rows: Sequence[Key]
    ranks: Sequence[NDArray[np.int64]]  # of these three: place in natural order, int64 [n] each
    searched: Sequence[str]  # what the filter searches, case folded
    namespaces: Mapping[str, list[int]]  # rows of the keys with the same first part

    @cached_property
    def names(self) -> Sequence[str]:
        """The keys, safe to show."""
        return [row.key for row in self.rows]


@dataclass(frozen=True, eq=False)
class Document:
    """One open model.

    Attributes:
        path: What the user opened.
        model: The model.
        facts: What it is.
        arrays: Columns of its tensor table, for sorting and filtering.
        keys: The metadata as a table.
        title: What to call it in lists.
        problems: What is wrong with it, here and for llama.cpp.
        kind: What it is if it is not a whole model: an adapter, an importance matrix; safe to show.
        declared: What is declared about its quantization, beside what its keys say; None without.
    """

    path: Path
    model: Model
    facts: Facts
    arrays: TensorArrays
    keys: KeyColumns
    title: str
    problems: tuple[Problem, ...]
    kind: str = ""
    declared: DeclaredQuantization | None = None

    @cached_property
    def has_damage(self) -> bool:
        """Whether the bytes of a tensor cannot all be read."""
        return bool(self.arrays.damaged.any())

    @cached_property
    def base_names(self) -> Set[str]:
        """What it may be called, without how its weights are stored."""
        from explorer.analysis.matching.pairing import base_names  # noqa: PLC0415 - not for first paint

        return base_names(self.path, self.title)

    @property
    def is_importance_matrix(self) -> bool:
        """Whether it is an importance matrix rather than a model or an adapter."""
        return self.kind.startswith("Importance")

    @property
    def brief(self) -> str:
        """Its file type, or else the type of most bytes; of what is not a model, a few words."""
        return self.facts.file_type or (not self.kind and self.facts.main_type) or self.summary

    @property
    def summary(self) -> str:
        """A few words about it."""
        facts = self.facts
        parts = (
            self.kind.partition(",")[0]
            or facts.file_type
            or (count_text(facts.parameters) if facts.parameters else None),
            bytes_text(facts.nbytes) if facts.nbytes else None,
        )
        return " · ".join(part for part in parts if part)


def load_document(path: Path, job: Job) -> Document:
    """Open a model and make its columns; called in a worker.

    Raises:
        ExplorerError: It cannot be opened.
    """
    from explorer.formats.open import open_model, several_at  # noqa: PLC0415 - the readers load in the worker
    from explorer.present.problems import problems_of  # noqa: PLC0415 - as above
    from explorer.present.quantization import declared_quantization  # noqa: PLC0415 - as above

    several = several_at(path) if isinstance(path, Address) else None
    if several is not None:
        raise several
    model = open_model(path)
    try:
        job.check()
        facts = describe(model)
        arrays = tensor_arrays(model.tensors, job.check)
        keys = _key_columns(model, job)
        problems = problems_of(model, job.check)
        declared = None if model.declared is None else declared_quantization(model)
    except BaseException:
        model.close()
        raise
    kind = plain_text(kind_of(model) or "")
    return Document(path, model, facts, arrays, keys, _title(path), problems, kind, declared)


def _key_columns(model: Model, job: Job) -> KeyColumns:
    rows = list(keys_of(model, _PREVIEW_CHARACTERS, job.check))
    searched = []
    namespaces: dict[str, list[int]] = {}
    for place, (row, entry) in enumerate(zip(rows, model.metadata.entries, strict=True)):
        namespaces.setdefault(entry.key.partition(".")[0], []).append(place)
        searched.append(f"{entry.key} {entry.type_name} {row.value}".casefold())
    texts = [[row.key for row in rows], [row.type for row in rows], [row.value for row in rows]]
    ranks = [text_ranks(column, job.check) for column in texts]
    return KeyColumns(rows, ranks, searched, namespaces)


def _title(path: Path) -> str:
    """Return the name that users know: of a manifest or a snapshot it is not the file's."""
    from explorer.formats.ollama.manifest import is_manifest_path, name_of  # noqa: PLC0415

    if is_manifest_path(path):
        return str(name_of(path))
    repository = hub_name(path.parent.parent.name) if path.parent.name == "snapshots" else ""
    return repository or path.name


def metadata_mask(document: Document, text: str) -> NDArray[np.bool_]:
    """Return which entries hold every word of `text` in key, type or value."""
    words = text.casefold().split()
    searched = document.keys.searched
    return np.array([all(word in line for word in words) for line in searched], dtype=np.bool_)
