"""The language of the tensor filter: ``ffn type:q6_k size>100M layer:3-7``.

A tensor is shown if every term holds. Case does not count.

| term | holds for |
| --- | --- |
| `ffn`, `"two words"`, `name:ffn` | names with this text in them |
| `type:q6_k`, `type:q4_*,q6_k` | tensor types; `*` stands for any ending |
| `role:attn` | roles (the name without layer and suffix) with this text in them |
| `layer:3`, `layer:3-7`, `layer:3,5,9-`, `layer:none` | layers |
| `file:00002` | files with this text in their names |
| `shape:4096`, `shape:4096x1024`, `shape:*x1024` | a dimension; all of them, outermost first |
| `dims:2` | a number of dimensions, ranges as for layers |
| `size>100M`, `params>=1B`, `bpw<4.5`, `offset=0x1000`, `layer<4`, `dims>1` | comparisons |
| `is:damaged`, `is:quantized` | what they say |
| `-word`, `-type:f32` | tensors for which the term does not hold |

`size` and `offset` count bytes: there K, M, G, T are powers of 1024, as are KiB, MiB, GiB, TiB,
while KB, MB, GB, TB are powers of 1000. `params` counts weights: there K, M, G (or B), T are powers
of 1000. `=` finds what rounds to the digits typed: ``size=1.2G`` finds 1.23 GiB, ``size=4096`` only
4096 bytes.

Text that is no filter yet is normal, for it is being typed. A term whose value is still missing or
wrong (``size>``, ``layer:x``) is left out, so that the table does not flash empty; an unknown word
in front of a colon is searched for in the names, which may hold colons; a type that does not exist
is taken for the beginning of one. Each of these is told in `TensorFilter.problems`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import compress, repeat
from operator import contains
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from explorer.formats.numbers import Bounds, parse_bounds
from explorer.formats.ranges import in_ranges, parse_ranges
from explorer.formats.tensor_arrays import TensorArrays, tensor_arrays
from explorer.formats.tensors import Shape
from explorer.quantization import TENSOR_TYPES

Mask: TypeAlias = NDArray[np.bool_]
_Evaluate: TypeAlias = Callable[[TensorArrays], Mask]

_TERM: Final = re.compile(r'(?:"[^"]*"?|[^\s"])+')
_KEYED: Final = re.compile(r"(?P<key>[a-zA-Z_]+)(?P<sign>:|>=|<=|>|<|=)(?P<value>.*)", re.DOTALL)
_SIGN: Final = re.compile(r"(?P<sign>>=|<=|>|<|=)?(?P<value>.*)", re.DOTALL)
_DIMENSION: Final = re.compile(r"\*|[0-9]{1,19}")
_KNOWN_TYPES: Final = frozenset(name.lower() for name in TENSOR_TYPES)
_TEXT_SHOWN: Final = 40


class _TermError(Exception):
    """A term that cannot be used; its text is the sentence for the user."""


@dataclass(frozen=True)
class _Term:
    evaluate: _Evaluate
    negated: bool


@dataclass(frozen=True)
class TensorFilter:
    """A filter as it was typed, ready to be applied.

    Attributes:
        text: What was typed.
        problems: A sentence for each term that could not be taken as it stands.
    """

    text: str
    problems: tuple[str, ...]
    _terms: tuple[_Term, ...]
    _words: tuple[tuple[str, bool], ...]

    @property
    def is_empty(self) -> bool:
        """Whether every tensor passes."""
        return not self._terms and not self._words

    def mask(self, columns: TensorArrays) -> Mask:
        """Tell for each row whether it passes, bool [n].

        Terms on numbers go first, so that words are looked for only in the names that are left.
        """
        mask = np.ones(len(columns), dtype=np.bool_)
        for term in self._terms:
            found = term.evaluate(columns)
            mask &= ~found if term.negated else found
        for word, negated in self._words:
            # Python finds a word in 262,144 names in 10 ms; NumPy's strings would be padded copies
            everything = bool(mask.all())
            names = columns.names if everything else list(compress(columns.names, mask.tolist()))
            found = np.frombuffer(bytes(map(contains, names, repeat(word))), np.bool_) ^ negated
            if everything:
                mask = found
            else:
                mask[mask] = found
        return mask


def parse_filter(text: str) -> TensorFilter:
    """Understand a filter; any text is accepted (see the module's description)."""
    problems: list[str] = []
    terms: list[_Term] = []
    words: list[tuple[str, bool]] = []
    for match in _TERM.finditer(text):
        term = match[0]
        if term.count('"') % 2:
            problems.append(
                "A quotation mark is not closed; the text up to the end is searched for."
            )
        negated = term.startswith("-") and len(term) > 1
        body = term[1:] if negated else term
        try:
            parsed = _parse_term(body, problems)
        except _TermError as error:
            problems.append(str(error))
            continue
        if isinstance(parsed, str):
            if parsed:
                words.append((parsed, negated))
        else:
            terms.append(_Term(parsed, negated))
    return TensorFilter(
        text, tuple(dict.fromkeys(problems)), tuple(terms), tuple(dict.fromkeys(words))
    )


def _parse_term(body: str, problems: list[str]) -> str | _Evaluate:
    """Return the word to look for in names, or what a term with a key means."""
    plain = body.replace('"', "").lower()
    if body == "-":
        raise _TermError(
            "A minus sign leaves out what the word behind it finds; the word is missing."
        )
    keyed = None if body.startswith('"') else _KEYED.fullmatch(body)
    if keyed is None:
        return plain
    key, sign = keyed["key"].lower(), keyed["sign"]
    value = keyed["value"].replace('"', "").lower()
    if key not in _EXAMPLES:
        known = ", ".join(_EXAMPLES)
        problems.append(
            f"There is no filter called '{_short(key)}', so names are searched for the text; "
            f"filters are {known}."
        )
        return plain
    if not value:
        raise _TermError(f"'{key}{sign}' still needs a value, like {_EXAMPLES[key]}.")
    if key == "name":
        _no_comparison(key, sign)
        return value
    return _KEYS[key](key, sign, value, problems)


def _type_term(key: str, sign: str, value: str, problems: list[str]) -> _Evaluate:
    _no_comparison(key, sign)
    exact: set[str] = set()
    prefixes: list[str] = []
    for part in filter(None, value.split(",")):
        if part.endswith("*"):
            prefixes.append(part.rstrip("*"))
        elif part in _KNOWN_TYPES:
            exact.add(part)
        else:
            prefixes.append(part)
            problems.append(
                f"No tensor type is called '{_short(part)}'; all that begin with it are shown."
            )
    if not exact and not prefixes:
        raise _TermError(f"'{key}{sign}' still needs a value, like {_EXAMPLES[key]}.")
    starts = tuple(prefixes)

    def evaluate(columns: TensorArrays) -> Mask:
        names = [kind.name.lower() for kind in columns.types]
        return _spread([n in exact or n.startswith(starts) for n in names], columns.type_codes)

    return evaluate


def _role_term(key: str, sign: str, value: str, problems: list[str]) -> _Evaluate:
    _no_comparison(key, sign)
    return lambda columns: _spread([value in role for role in columns.roles], columns.role_codes)


def _file_term(key: str, sign: str, value: str, problems: list[str]) -> _Evaluate:
    _no_comparison(key, sign)
    return lambda columns: _spread(
        [value in path.name.lower() for path in columns.files], columns.file_codes
    )


def _is_term(key: str, sign: str, value: str, problems: list[str]) -> _Evaluate:
    _no_comparison(key, sign)
    if value == "damaged":
        return lambda columns: columns.damaged
    if value == "quantized":
        return lambda columns: _spread(
            [kind.quantized for kind in columns.types], columns.type_codes
        )
    raise _TermError(f"'is:{_short(value)}' is left out: it can be is:damaged or is:quantized.")


def _layer_term(key: str, sign: str, value: str, problems: list[str]) -> _Evaluate:
    if sign in (":", "=") and value == "none":
        return lambda columns: columns.layers < 0
    within = _count_term(key, sign, value, lambda columns: columns.layers)
    return lambda columns: within(columns) & (columns.layers >= 0)


def _dims_term(key: str, sign: str, value: str, problems: list[str]) -> _Evaluate:
    return _count_term(key, sign, value, lambda columns: columns.dimensions)


def _count_term(
    key: str, sign: str, value: str, column: Callable[[TensorArrays], NDArray[np.int64]]
) -> _Evaluate:
    ranges = parse_ranges(value) if sign in (":", "=") else None
    if ranges is not None:
        return lambda columns: in_ranges(column(columns), ranges)
    bounds = _bounds(key, sign, value, "count")
    return lambda columns: bounds.of_integers(column(columns))


def _shape_term(key: str, sign: str, value: str, problems: list[str]) -> _Evaluate:
    _no_comparison(key, sign)
    parts = re.split("[x×]", value.replace(",", "").replace("_", ""))
    unfinished = len(parts) > 1 and not parts[-1]
    if unfinished:  # "4096x" is on its way to "4096x1024": the dimensions so far must agree
        parts.pop()
    if not all(_DIMENSION.fullmatch(part) for part in parts):
        raise _TermError(
            f"'shape:{_short(value)}' is left out: it can be a dimension or all of them, like "
            f"{_EXAMPLES['shape']}."
        )
    wanted = [None if part == "*" else int(part) for part in parts]

    def agrees(shape: Shape) -> bool:
        if len(parts) == 1 and not unfinished:
            return wanted[0] is None or wanted[0] in shape
        if len(shape) < len(wanted) or (len(shape) != len(wanted) and not unfinished):
            return False
        return all(w is None or w == d for w, d in zip(wanted, shape, strict=False))

    return lambda columns: _spread([agrees(shape) for shape in columns.shapes], columns.shape_codes)


def _size_term(key: str, sign: str, value: str, problems: list[str]) -> _Evaluate:
    bounds = _bounds(key, sign, value, "bytes")
    if key == "size":
        return lambda columns: bounds.of_integers(columns.nbytes)
    return lambda columns: bounds.of_integers(columns.offsets)


def _params_term(key: str, sign: str, value: str, problems: list[str]) -> _Evaluate:
    bounds = _bounds(key, sign, value, "count")
    return lambda columns: bounds.of_integers(columns.parameters)


def _bpw_term(key: str, sign: str, value: str, problems: list[str]) -> _Evaluate:
    bounds = _bounds(key, sign, value, "plain")
    return lambda columns: bounds.of_floats(columns.bits_per_weight)


def _bounds(key: str, sign: str, value: str, unit: str) -> Bounds:
    """Read a comparison; ``size:>1M`` is taken like ``size>1M``."""
    inner = _SIGN.fullmatch(value) if sign == ":" else None
    if inner is not None:
        sign, value = inner["sign"] or "=", inner["value"]
    bounds = parse_bounds(sign, value, unit)
    if bounds is None:
        raise _TermError(
            f"'{key}{sign}{_short(value)}' is left out: there is no such number; write it like "
            f"{_EXAMPLES[key]}."
        )
    return bounds


def _no_comparison(key: str, sign: str) -> None:
    if sign not in (":", "="):
        raise _TermError(f"'{key}{sign}' is left out: it is text; write it like {_EXAMPLES[key]}.")


def _spread(of_code: list[bool], codes: NDArray[np.int64]) -> Mask:
    """Turn an answer for each distinct value into one for each row."""
    return np.array(of_code, dtype=np.bool_)[codes]


def _short(text: str) -> str:
    return text if len(text) <= _TEXT_SHOWN else text[: _TEXT_SHOWN - 1] + "…"


_Parse: TypeAlias = Callable[[str, str, str, list[str]], _Evaluate]

_KEYS: Final[dict[str, _Parse]] = {
    "type": _type_term,
    "role": _role_term,
    "layer": _layer_term,
    "file": _file_term,
    "shape": _shape_term,
    "dims": _dims_term,
    "size": _size_term,
    "offset": _size_term,
    "params": _params_term,
    "bpw": _bpw_term,
    "is": _is_term,
}
_EXAMPLES: Final = {
    "name": "name:ffn",
    "type": "type:q4_k or type:q4_*",
    "role": "role:attn",
    "layer": "layer:3-7 or layer<4",
    "file": "file:00002",
    "shape": "shape:4096 or shape:4096x1024",
    "dims": "dims:2",
    "size": "size>100M",
    "offset": "offset>=1G",
    "params": "params>1B",
    "bpw": "bpw<4.5",
    "is": "is:damaged or is:quantized",
}

__all__ = ["TensorArrays", "TensorFilter", "parse_filter", "tensor_arrays"]
