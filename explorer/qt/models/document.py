"""An open model with what its views need, made in a worker: views never wait for a disk."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from explorer.display import bytes_text, count_text, value_text
from explorer.errors import ExplorerError
from explorer.formats import MetadataEntry, Model, open_model
from explorer.formats.facts import Facts, describe
from explorer.formats.tensor_filter import TensorArrays, tensor_arrays
from explorer.qt.jobs import Job

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
    """

    path: Path
    model: Model
    facts: Facts
    arrays: TensorArrays
    previews: tuple[str, ...]

    @property
    def title(self) -> str:
        """What to call it in lists."""
        return self.path.name

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
    model = open_model(path)
    try:
        job.check()
        facts = describe(model)
        arrays = tensor_arrays(model.tensors, job.check)
        previews = []
        for entry in model.metadata.entries:
            job.check()
            previews.append(_preview(model, entry))
    except BaseException:
        model.close()
        raise
    return Document(path, model, facts, arrays, tuple(previews))


def _preview(model: Model, entry: MetadataEntry) -> str:
    try:
        return value_text(entry, _PREVIEW_CHARACTERS, model)
    except ExplorerError as error:
        return f"({error.what})"
