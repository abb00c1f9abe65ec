"""An open model with what its views need, made in a worker: views never wait for a disk."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from explorer.errors import ExplorerError
from explorer.formats import MetadataEntry, Model, Problem
from explorer.formats.columns import TensorArrays, tensor_arrays
from explorer.formats.facts import Facts, describe
from explorer.model_files import hub_name
from explorer.present.model import value_text
from explorer.qt.jobs import Job
from explorer.text import bytes_text, count_text

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
        title: What to call it in lists.
        problems: What is wrong with it, here and for llama.cpp.
    """

    path: Path
    model: Model
    facts: Facts
    arrays: TensorArrays
    previews: tuple[str, ...]
    title: str
    problems: tuple[Problem, ...]

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
    from explorer.formats.gguf.llama_cpp import llama_cpp_problems  # noqa: PLC0415 - as above

    model = open_model(path)
    try:
        job.check()
        facts = describe(model)
        arrays = tensor_arrays(model.tensors, job.check)
        previews = []
        for entry in model.metadata.entries:
            job.check()
            previews.append(_preview(model, entry))
        problems = *model.problems, *llama_cpp_problems(model, job.check)
    except BaseException:
        model.close()
        raise
    return Document(path, model, facts, arrays, tuple(previews), _title(path), problems)


def _title(path: Path) -> str:
    """Return the name that users know: of a manifest or a snapshot it is not the file's."""
    from explorer.formats.ollama.manifest import is_manifest_path, name_of  # noqa: PLC0415

    if is_manifest_path(path):
        return str(name_of(path))
    repository = hub_name(path.parent.parent.name) if path.parent.name == "snapshots" else ""
    return repository or path.name


def _preview(model: Model, entry: MetadataEntry) -> str:
    try:
        return value_text(entry, _PREVIEW_CHARACTERS, model)
    except ExplorerError as error:
        return f"({error.what})"
