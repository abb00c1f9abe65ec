"""Perplexity and KL divergence that others measured: this program computes neither.

Read from the output of `llama-perplexity` (llama.cpp, tools/perplexity/perplexity.cpp), with
``--kl-divergence`` or without, or from a CSV with a line for each model.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from explorer.errors import FormatError
from explorer.planner.logs.reading import wide_encoding
from explorer.sources.files import FileSource

_LARGEST: Final = 16 << 20
_MOST_MODELS: Final = 4096
_LONGEST_LINE: Final = 2048
_LONGEST_CELL: Final = 512

_NUMBER: Final = r"([-+]?\d{1,20}(?:\.\d{0,20})?(?:[eE][-+]?\d{1,3})?)"
# Behind a mean stands ± and its uncertainty, which a terminal may have garbled.
_LINES: Final = (
    ("perplexity", re.compile(rf"Final estimate: PPL = {_NUMBER}(?: \S+ {_NUMBER})?")),
    ("perplexity", re.compile(rf"Mean PPL\(Q\)\s*:\s*{_NUMBER}(?:\s+\S+\s+{_NUMBER})?")),
    ("divergence", re.compile(rf"Mean\s+KLD:\s*{_NUMBER}(?:\s+\S+\s+{_NUMBER})?")),
    ("divergence_median", re.compile(rf"Median\s+KLD:\s*{_NUMBER}")),
    ("divergence_99_9", re.compile(rf"99\.9%\s+KLD:\s*{_NUMBER}")),
    ("same_top", re.compile(rf"Same top p:\s*{_NUMBER}")),
)
_MODEL: Final = re.compile(r"loaded meta data with .{1,80} from (.{1,1024}?) \(version ")

_COLUMNS: Final = {
    "model": "model file name path quant quantization",
    "perplexity": "ppl perplexity meanppl meanpplq pplq wikippl",
    "perplexity_error": "pplerror pplstderr ppluncertainty",
    "divergence": "kld meankld kldmean kldivergence meankldivergence divergence",
    "divergence_median": "mediankld kldmedian",
    "divergence_99_9": "999kld kld999 p999kld",
    "same_top": "sametop sametopp sametop1 top1 topp",
}
_NAMES: Final = {word: name for name, words in _COLUMNS.items() for word in words.split()}
_POSITIVE: Final = frozenset({"perplexity", "perplexity_error", "same_top"})


@dataclass(frozen=True, slots=True)
class Quality:
    """What was measured of a model.

    Attributes:
        model: The model's file as the log names it, or else the name of the log.
        figures: ``perplexity``, ``divergence`` (mean KL divergence, nats), ``divergence_median``,
            ``divergence_99_9`` and ``same_top`` (share of tokens), and uncertainties of the first
            two, as far as they are there.
    """

    model: str
    figures: Mapping[str, float]

    def is_of(self, path: Path, file_type: str | None) -> bool:
        """Return whether it is of a model: its name is part of what the log calls it.

        A log that names no model may be called after the type alone (``Q4_K_M.txt``).
        """
        name = PurePosixPath(self.model.replace("\\", "/")).name.casefold()
        if name in {path.name.casefold(), path.stem.casefold()}:
            return True
        if name.endswith(".gguf"):
            return False
        kind = re.escape((file_type or "").casefold())
        alone = kind and re.search(rf"(?<![a-z0-9_]){kind}(?![a-z0-9_])", name)
        return path.stem.casefold() in name or bool(alone)

    def corrected(self, later: Quality) -> Quality:
        """Return it with what another run says in place of its own; the rest stays."""
        kept = {
            name: value
            for name, value in self.figures.items()
            if name.removesuffix("_error") not in later.figures
        }
        return Quality(later.model, kept | dict(later.figures))


def read_quality(path: Path) -> Sequence[Quality]:
    """Read the output of `llama-perplexity`, or a CSV; for a worker.

    Raises:
        ExplorerError: It cannot be read, or says nothing of the kind.
    """
    with FileSource(path) as source:
        if source.size > _LARGEST:
            what = "larger than 16 MiB: no output of llama-perplexity, and no table of its results"
            raise FormatError(what, path)
        data = source.read(0, source.size)
    text = data.decode(wide_encoding(data) or "utf-8", "replace")
    lines = [line[:_LONGEST_LINE] for line in text.splitlines()]
    found = list(_of_table(lines)) or list(_of_log(lines, path.stem))
    if not found:
        what = (
            "neither perplexity nor KL divergence found. Take the output of llama-perplexity, or a "
            "CSV with the columns model, ppl and kld"
        )
        raise FormatError(what, path)
    return found


def _of_log(lines: Sequence[str], name: str) -> Iterator[Quality]:
    """Yield each run of a log that has come to its end."""
    model, figures = name, dict[str, float]()
    for line in lines:
        opened = _MODEL.search(line)
        if opened is not None and figures:
            yield Quality(model, figures)
            figures = {}
        if opened is not None:
            model = opened[1]
        for figure, pattern in _LINES:
            if (hit := pattern.search(line)) is not None:
                value, within = (*hit.groups(), None)[:2]
                known = _known(figure, value)
                figures |= known | (_known(f"{figure}_error", within) if known else {})
    if figures:
        yield Quality(model, figures)


def _of_table(lines: Sequence[str]) -> Iterator[Quality]:
    """Yield the lines of a CSV whose head names a model and a figure; of other text, nothing."""
    head = next((line for line in lines if line.strip()), "")
    comma = max(",;\t", key=head.count)
    names = [_NAMES.get(re.sub(r"[\W_]", "", word.casefold()), "") for word in head.split(comma)]
    if "model" not in names or not {"perplexity", "divergence"} & set(names):
        return
    for row in csv.reader(lines[lines.index(head) + 1 :][:_MOST_MODELS], delimiter=comma):
        cells = dict(zip(names, row, strict=False))
        figures: dict[str, float] = {}
        for name in names:
            if name and name != "model":
                figures |= _known(name, cells.get(name))
        if figures and cells.get("model"):
            yield Quality(cells["model"][:_LONGEST_CELL].strip(), figures)


def _known(name: str, text: str | None) -> dict[str, float]:
    """Return a figure by its name, if it is a possible number."""
    try:
        value = float((text or "").strip().rstrip("%"))
    except ValueError:
        return {}
    if name == "same_top" and value > 1:
        value /= 100
    possible = math.isfinite(value) and (value > 0 or name not in _POSITIVE)
    return {name: value} if possible else {}
