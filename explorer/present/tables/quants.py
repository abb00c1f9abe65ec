"""The table of the models of a repository, of a name on the web, or of a folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from explorer.present.fits import ModelFit, Version
from explorer.present.tables.speed import SPEED
from explorer.present.tables.table import BITS, BYTES, INTEGER, RATIO, TEXT, Column, Table

UNREAD: Final = Version(None, None, "", ModelFit(None, ""))
"""What is known of a model whose header was not read yet."""


@dataclass(slots=True)
class ListedModel:
    """One of several models at an address.

    Attributes:
        name: The file, the tag, or the folder.
        path: Its address.
        listed: Bytes, as its server lists them; 0 if it does not.
        version: What its header says; `UNREAD` until it was read.
        error: Relative RMSE of all matrices against the original among them; None if it is not
            known, NaN where a tensor cannot be read.
    """

    name: str
    path: Path
    listed: int
    version: Version = UNREAD
    error: float | None = None

    @property
    def fit(self) -> ModelFit:
        """How it fits, as far as that is known."""
        return self.version.fit

    @property
    def bits(self) -> float:
        """Stored bits for each weight; 0 where that is not known."""
        return self.version.bits_per_weight or 0.0

    @property
    def fits(self) -> str | None:
        """Whether it fits, in words."""
        if self.version is UNREAD:
            return None
        return "⚠ Cannot be read" if self.version.nbytes is None else self.fit.state or "Not known"


_NAME: Final = "The file, the tag, or the folder of a model."
_SIZE: Final = "Bytes of the model's files, as its server says."
_BITS: Final = "Stored bits for each weight, over all tensors, by the model's header."
_ERROR: Final = "How far all matrices together are from those of the original in this list."
_FITS: Final = "Whether it fits the machine that plans are for."
_CONTEXT: Final = "Largest context for one request that fits that machine."
_FIGURES: Final[Sequence[Column[ListedModel]]] = (
    Column("bytes", "Size", BYTES, _SIZE, lambda one: one.listed or one.version.nbytes),
    Column("bits_per_weight", "Bits/weight", BITS, _BITS, lambda one: one.version.bits_per_weight),
    Column("error", "Error", RATIO, _ERROR),
    Column("fits", "On this machine", TEXT, _FITS),
    Column(
        *("context", "Largest context", INTEGER, _CONTEXT),
        lambda one: one.fit.largest_context,
        text=lambda one: one.fit.context_text,
    ),
    SPEED.at(lambda one: one.fit),
)
LISTED: Final = Table[ListedModel](
    Column("name", "Name", TEXT, _NAME),
    *(replace(column, row_tip=lambda one: one.fit.sentence) for column in _FIGURES),
    title="Models at the address",
)
"""Figures of models; the tip of each says why its model fits or does not."""


def listed_table(models: Sequence[ListedModel]) -> Table[ListedModel]:
    """Return the table of models; it says how large errors are where one is known."""
    order = INTEGER.order([one.fit.order for one in models])
    table = LISTED.replacing(replace(LISTED["fits"], keys=lambda: order))
    return table.without("error") if all(one.error is None for one in models) else table
