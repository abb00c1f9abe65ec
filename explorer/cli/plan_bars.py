"""A GPU's memory as a bar: its parts are told apart by the character, not only by colour."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from explorer.cli.output import style
from explorer.present.plan import part_label


@dataclass(frozen=True, slots=True)
class Part:
    """One kind of content.

    Attributes:
        name: What it is called.
        block: How it is drawn.
        ascii: How it is drawn on a terminal without block characters.
        colour: Its colour, of `click.style`.
    """

    name: str
    block: str
    ascii: str
    colour: str


WEIGHTS: Final = Part(part_label("weights"), "█", "#", "blue")
KV_CACHE: Final = Part(part_label("kv_cache"), "▓", "=", "green")
GRAPH: Final = Part(part_label("graph"), "▒", "+", "yellow")
PROJECTOR: Final = Part(part_label("projector"), "◆", "@", "cyan")
RESERVED: Final = Part(part_label("reserved"), "░", "-", "magenta")
FREE: Final = Part(part_label("free"), "·", ".", "bright_black")


def draw_bar(parts: Sequence[tuple[Part, int]], width: int) -> str:
    """Return a bar whose parts are as long as their bytes.

    Args:
        parts: What there is, with its bytes, from left to right.
        width: Characters of the whole bar.
    """
    blocks = _has_blocks()
    lengths = bar_lengths([nbytes for _, nbytes in parts], width)
    return "".join(
        style((part.block if blocks else part.ascii) * length, fg=part.colour)
        for (part, _), length in zip(parts, lengths, strict=True)
        if length
    )


def key_mark(part: Part) -> str:
    """Return the character that stands for a part."""
    return style(part.block if _has_blocks() else part.ascii, fg=part.colour)


def bar_lengths(amounts: Sequence[int], width: int) -> list[int]:
    """Divide a width in proportion to amounts, to its last character.

    The characters that rounding down leaves over go to the largest remainders. What is there at all
    gets a character, taken from the longest part, as long as there are enough for all.
    """
    total = sum(amounts)
    if total == 0 or width <= 0:
        return [0] * len(amounts)
    lengths = [amount * width // total for amount in amounts]
    remainders = [amount * width % total for amount in amounts]
    order = sorted(range(len(amounts)), key=lambda i: remainders[i], reverse=True)
    for i in order[: width - sum(lengths)]:
        lengths[i] += 1
    if sum(amount > 0 for amount in amounts) <= width:
        for i, amount in enumerate(amounts):
            if amount > 0 and lengths[i] == 0:
                lengths[max(range(len(lengths)), key=lengths.__getitem__)] -= 1
                lengths[i] = 1
    return lengths


def _has_blocks() -> bool:
    encoding = getattr(sys.stdout, "encoding", None) or "ascii"
    try:
        "█▓▒░·◆".encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True
