r"""What a stored token stands for: each tokenizer writes spaces and bytes in its own way.

Rules by `tokenizer.ggml.model`, as llama.cpp reads them (src/llama-vocab.cpp, `token_to_piece`):

- byte-level BPE (``gpt2``): each byte is one printable character of a table of 256 (GPT-2,
  src/encoder.py, `bytes_to_unicode`), so that a space is ``Ġ``;
- SentencePiece and kin (``llama``, ``t5``, ``gemma4``): a space is ``▁``, a byte is ``<0x0A>``;
- WordPiece (``bert``): converters write ``▁`` before a word's first piece; older files have ``##``
  before the others;
- RWKV: escapes, ``\n`` and ``\x0a``;
- PLaMo-2: text as it is, a byte is ``<0x0A>``.

Control and user-defined tokens stand for themselves. A tokenizer that is not known changes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from enum import Enum, auto
from types import MappingProxyType
from typing import Final

from explorer.formats.metadata import decode_text

SPACE_MARK: Final = "\u2581"
"""What stands for a space in SentencePiece: a lower one eighth block."""

NO_TYPE: Final = -1
"""In place of a token type that the file does not give."""

_LITERAL_TYPES: Final = frozenset({2, 3, 4})  # unknown, control, user-defined (gguf.md section 9)
_BYTE_TYPE: Final = 6

_BYTE_TOKEN: Final = re.compile("<0x([0-9A-Fa-f]{2})>")
_RWKV_ESCAPE: Final = re.compile(rb"\\(?:x([0-9a-f]{2})|(.))", re.DOTALL)
_RWKV_NAMED: Final = {b"t": b"\t", b"n": b"\n", b"r": b"\r"}


class Scheme(Enum):
    """How a tokenizer writes what its tokens stand for."""

    BYTE_LEVEL = auto()
    SPACE_MARK = auto()
    HASHES = auto()
    RWKV = auto()
    BYTE_TOKENS = auto()
    PLAIN = auto()


_SCHEMES: Final[Mapping[str | None, Scheme]] = MappingProxyType(
    {
        "gpt2": Scheme.BYTE_LEVEL,
        "llama": Scheme.SPACE_MARK,
        "t5": Scheme.SPACE_MARK,
        "gemma4": Scheme.SPACE_MARK,
        "bert": Scheme.HASHES,
        "rwkv": Scheme.RWKV,
        "plamo2": Scheme.BYTE_TOKENS,
        "plamo3": Scheme.BYTE_TOKENS,
    }
)


def scheme_of(tokenizer: str | None, *, has_space_marks: bool) -> Scheme:
    """Return the scheme of a tokenizer.

    Args:
        tokenizer: The value of `tokenizer.ggml.model`.
        has_space_marks: Whether tokens begin with ``▁``, which tells the two kinds of WordPiece.
    """
    scheme = _SCHEMES.get(tokenizer, Scheme.PLAIN)
    if scheme is Scheme.HASHES and has_space_marks:
        return Scheme.SPACE_MARK
    return scheme


def _byte_alphabet() -> dict[int, int]:
    """Return the byte of each character: printable ones are themselves, others lie from 256 on."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = sorted(set(range(256)) - set(printable))
    return {byte: byte for byte in printable} | {256 + i: byte for i, byte in enumerate(others)}


_ALPHABET: Final[Mapping[int, int]] = _byte_alphabet()
# For `str.translate`: a character of Latin-1 that is not in the alphabet is moved out of Latin-1,
# so that encoding fails and the slow way, which keeps it, is taken. ASCII is the same in both ways.
_TO_LATIN_1: Final = dict(_ALPHABET) | dict.fromkeys((*range(0x80, 0xA1), 0xAD), 0x2400)


def decode_token(stored: str, kind: int, scheme: Scheme) -> str:
    """Return what a token stands for.

    Args:
        stored: The token as the file has it.
        kind: Its type, `NO_TYPE` if the file does not give it.
        scheme: The tokenizer's scheme.

    Returns:
        Text; a byte that is no UTF-8 by itself is a lone surrogate in it (PEP 383).
    """
    if kind in _LITERAL_TYPES or scheme is Scheme.PLAIN:
        return stored
    if scheme is Scheme.BYTE_LEVEL:
        return _from_byte_level(stored)
    if scheme is Scheme.HASHES:
        return stored[2:] if len(stored) > 2 and stored.startswith("##") else stored
    if scheme is Scheme.RWKV:
        return _from_rwkv(stored) if "\\" in stored else stored
    if kind in (_BYTE_TYPE, NO_TYPE):
        byte = _BYTE_TOKEN.fullmatch(stored)
        if byte is not None:
            return decode_text(bytes.fromhex(byte[1]))
    return stored.replace(SPACE_MARK, " ") if scheme is Scheme.SPACE_MARK else stored


def decode_tokens(stored: Sequence[str], kinds: Sequence[int], scheme: Scheme) -> list[str]:
    """Decode many tokens; as `decode_token` does, but several times faster.

    An unchanged token comes back as the same object, so that it takes no memory twice.
    """
    if scheme is Scheme.PLAIN:
        return list(stored)
    if scheme is Scheme.SPACE_MARK:
        special = _LITERAL_TYPES | {_BYTE_TYPE, NO_TYPE}
        return [
            decode_token(text, kind, scheme)
            if kind in special
            else (text.replace(SPACE_MARK, " ") if SPACE_MARK in text else text)
            for text, kind in zip(stored, kinds, strict=True)
        ]
    if scheme is Scheme.BYTE_LEVEL:
        return [
            text if text.isascii() or kind in _LITERAL_TYPES else _from_byte_level(text)
            for text, kind in zip(stored, kinds, strict=True)
        ]
    return [decode_token(text, kind, scheme) for text, kind in zip(stored, kinds, strict=True)]


def _from_byte_level(stored: str) -> str:
    try:
        raw = stored.translate(_TO_LATIN_1).encode("latin-1")
    except UnicodeEncodeError:  # characters beside the alphabet, as added tokens have them
        raw = b"".join(
            bytes((_ALPHABET[ord(character)],))
            if ord(character) in _ALPHABET
            else character.encode("utf-8", "surrogateescape")
            for character in stored
        )
    return decode_text(raw)


def _from_rwkv(stored: str) -> str:
    def escape(match: re.Match[bytes]) -> bytes:
        if match[1] is not None:
            return bytes.fromhex(match[1].decode("ascii"))
        return _RWKV_NAMED.get(match[2], match[2])

    return decode_text(_RWKV_ESCAPE.sub(escape, stored.encode("utf-8", "surrogateescape")))
