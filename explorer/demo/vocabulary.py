"""The demo model's vocabulary: every kind of token that real ones have, in small."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, islice
from typing import Final

from explorer.resources import resource

TOKEN_COUNT: Final = 2000
BOS, EOS, UNKNOWN = 1, 2, 0
_NORMAL, _UNKNOWN, _CONTROL, _USER, _UNUSED, _BYTE = 1, 2, 3, 4, 5, 6  # gguf.md section 9
_SPACE: Final = "▁"  # SentencePiece's sign of a word's beginning
_CONTROL_TOKENS: Final = (
    "<|im_start|>",
    "<|im_end|>",
    "<|tool_call|>",
    "<|tool_result|>",
    "<|pad|>",
)
_USER_TOKENS: Final = ("\n\n", "\t", "    ", "```", "https://", "\u200d", "\u202e")
# Pieces that are no UTF-8 by themselves: parts of 你, of an emoji, and a byte of no encoding.
_BROKEN: Final = (b"\xe4\xbd", b"\xa0", b"\xf0\x9f\x98", b"\xff", b"caf\xe9")
_UNUSED_COUNT: Final = 20
_ENDINGS: Final = ("s", "ed", "ing", "er", "ly", "ness", "ment", "able", "ful", "less")


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Tokens with what is said of each.

    Attributes:
        tokens: The pieces; bytes where they are no UTF-8.
        scores: Log probabilities, falling; 0 for tokens that are no pieces of text.
        types: gguf.md section 9, `token_type`.
    """

    tokens: list[str | bytes]
    scores: list[float]
    types: list[int]


def make_vocabulary() -> Vocabulary:
    """Return the vocabulary, always the same."""
    special: list[tuple[str | bytes, int]] = [("<unk>", _UNKNOWN), ("<s>", _CONTROL)]
    special += [("</s>", _CONTROL)]
    special += [(f"<0x{byte:02X}>", _BYTE) for byte in range(256)]
    special += [(token, _CONTROL) for token in _CONTROL_TOKENS]
    special += [(token, _USER) for token in _USER_TOKENS]
    unused = [(f"<unused{i}>", _UNUSED) for i in range(_UNUSED_COUNT)]
    room = TOKEN_COUNT - len(special) - len(unused)
    taken = {token for token, _ in special}
    pieces = (piece for piece in dict.fromkeys(_pieces()) if piece not in taken)
    normal = list(islice(pieces, room))
    rows = [*special, *((piece, _NORMAL) for piece in normal), *unused]
    first = len(special)
    scores = [float(first - i) if kind == _NORMAL else 0.0 for i, (_, kind) in enumerate(rows)]
    return Vocabulary([token for token, _ in rows], scores, [kind for _, kind in rows])


def _pieces() -> Iterator[str | bytes]:
    words = resource("demo/words.txt").read_text("utf-8").split()
    other_scripts = "".join(resource("demo/characters.txt").read_text("utf-8").split())
    return chain(
        (_SPACE, "e", "t", "a", "in", "th", f"{_SPACE}t", f"{_SPACE}a"),
        _BROKEN,
        (_SPACE + word for word in words),
        (chr(code) for code in range(33, 127)),
        other_scripts,
        _ENDINGS,
        (_SPACE + word.capitalize() for word in words),
        words,
        (_SPACE + word + ending for word in words for ending in _ENDINGS),
    )
