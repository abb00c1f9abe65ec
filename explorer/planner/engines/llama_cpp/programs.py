"""Programs that load models with llama.cpp, and what each asks of it where nothing is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple


class Program(NamedTuple):
    """One program.

    Attributes:
        otherwise: What it does by itself where one request is planned, after a reason; else "".
        batch: Tokens of a batch.
        all_logits: Whether it reserves logits of the whole micro-batch.
        more: Tokens that it adds to the context.
        unknown: What is not known of it, as a sentence; else "".
    """

    otherwise: str = ""
    batch: int = 512
    all_logits: bool = True
    more: int = 0
    unknown: str = ""


SERVER: Final = "llama-server"
PROGRAMS: Final[Mapping[str, Program]] = MappingProxyType(
    {
        SERVER: Program(
            otherwise="; llama-server by itself keeps room for 4 requests",
            batch=2048,
            all_logits=False,
        ),
        "LM Studio": Program(
            unknown="what LM Studio reserves for logits is not known: the most is counted"
        ),
        "KoboldCpp": Program(more=256),
        "llama-cpp-python": Program(),
        "other": Program(
            batch=2048,
            unknown="the program is not known: what llama.cpp's library does by itself is counted",
        ),
    }
)
"""The programs by name. Sources: logs, and the arguments that each gives to the library."""
