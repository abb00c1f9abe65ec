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
| `scheme:gptq` | quantization methods of Hugging Face models that begin so |
| `group:128`, `group>64` | weights that share a scale, ranges as for layers |
| `size>100M`, `params>=1B`, `bpw<4.5`, `offset=0x1000`, `layer<4`, `dims>1` | comparisons |
| `is:damaged`, `is:quantized` | what they say |
| `-word`, `-type:f32` | tensors for which the term does not hold |

`size` and `offset` count bytes: there K, M, G, T are powers of 1024, as are KiB, MiB, GiB, TiB,
while KB, MB, GB, TB are powers of 1000. `params` counts weights: there K, M, G (or B), T are powers
of 1000. `=` finds what rounds to the digits typed: ``size=1.2G`` finds 1.23 GiB, ``size=4096`` only
4096 bytes.

Text that is not yet a filter is normal: it is being typed. A term whose value is still missing or
wrong (``size>``, ``layer:x``) is left out, so that the table does not flash empty; an unknown word
in front of a colon is searched for in the names, which may hold colons; a type that does not exist
is taken for the beginning of one. `TensorFilter.problems` names each of these.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import compress, repeat
from operator import contains
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from explorer.formats.columns import TensorArrays
from explorer.formats.tensors import Shape
from explorer.quantization import TENSOR_TYPES
from explorer.text import plain_number, shorten

_NUMBER: Final = re.compile(r"(?P<whole>[0-9]{0,20})(?:\.(?P<part>[0-9]{0,20}))?(?P<suffix>[a-z]*)")
_HEX: Final = re.compile(r"0x([0-9a-f]{1,16})")

# Powers by suffix: what counts bytes, and what counts things.
_BYTES: Final[dict[str, int]] = {"": 1, "b": 1}
_COUNT: Final[dict[str, int]] = {"": 1, "b": 10**9}
for _power, _letter in enumerate("kmgt", 1):
    _BYTES.update(
        {_letter: 1024**_power, f"{_letter}ib": 1024**_power, f"{_letter}b": 1000**_power}
    )
    _COUNT[_letter] = 1000**_power
_UNITS: Final = {"bytes": _BYTES, "count": _COUNT, "plain": {"": 1}}


@dataclass(frozen=True, slots=True)
class Bounds:
    """The numbers that pass a comparison: from low to high, None for no limit.

    Attributes:
        open_ends: Whether the limits themselves are outside.
    """

    low: Fraction | None
    high: Fraction | None
    open_ends: bool

    def of_integers(self, values: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which integers, int64 [n], are within: bool [n].

        Exact: a size near 2^63 compared as a float is off by hundreds.
        """
        mask = np.ones(len(values), dtype=np.bool_)
        least, most = self._integers
        if least is not None:
            mask &= values >= least
        if most is not None:
            mask &= values <= most
        return mask

    def holds(self, value: int) -> bool:
        """Return whether an integer is within."""
        least, most = self._integers
        return (least is None or value >= least) and (most is None or value <= most)

    @property
    def _integers(self) -> tuple[int | None, int | None]:
        """The least and the greatest integer within; None for no limit."""
        low, high = self.low, self.high
        least = most = None
        if low is not None:
            least = math.floor(low) + 1 if self.open_ends else math.ceil(low)
        if high is not None:
            most = math.ceil(high) - 1 if self.open_ends else math.floor(high)
        return least, most

    def of_floats(self, values: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Return which numbers, float64 [n], are within: bool [n]."""
        mask = np.ones(len(values), dtype=np.bool_)
        if self.low is not None:
            mask &= values > float(self.low) if self.open_ends else values >= float(self.low)
        if self.high is not None:
            mask &= values < float(self.high) if self.open_ends else values <= float(self.high)
        return mask


def parse_bounds(sign: str, text: str, unit: str) -> Bounds | None:
    """Parse a comparison.

    Args:
        sign: ``>``, ``>=``, ``<``, ``<=`` or ``=``; the last finds what rounds to the digits typed.
        text: The number in lower case: ``"1.5g"``, ``"1,000"``, ``"0x1f"``.
        unit: ``"bytes"`` (K is 1024, KB 1000), ``"count"`` (K is 1000, B is 10^9) or ``"plain"``.

    Returns:
        The numbers that pass it, or None if the text is not such a number.
    """
    number = _parse_number(text, unit)
    if number is None:
        return None
    value, step = number
    if sign in (">", ">="):
        return Bounds(value, None, open_ends=sign == ">")
    if sign in ("<", "<="):
        return Bounds(None, value, open_ends=sign == "<")
    return Bounds(value - step / 2, value + step / 2, open_ends=False)


def _parse_number(text: str, unit: str) -> tuple[Fraction, Fraction] | None:
    """Return a number and the worth of its last digit, 0 if it is exact."""
    hexadecimal = _HEX.fullmatch(text)
    if hexadecimal is not None:
        return Fraction(int(hexadecimal[1], 16)), Fraction(0)
    whole = unit != "plain" and text[-1:].isdigit()  # bytes and counts have no fractions
    match = _NUMBER.fullmatch(plain_number(text, whole=whole))
    if match is None or not (match["whole"] or match["part"]):
        return None
    scale = _UNITS[unit].get(match["suffix"])
    if scale is None:
        return None
    part = match["part"] or ""
    value = Fraction(int(match["whole"] + part), 10 ** len(part)) * scale
    exact = not part and scale == 1
    return value, Fraction(0) if exact else Fraction(scale, 10 ** len(part))


Range: TypeAlias = tuple[int, int | None]

_RANGE: Final = re.compile(r"(?P<first>[0-9]{0,18})(?P<to>-?)(?P<last>[0-9]{0,18})")


def parse_ranges(text: str) -> tuple[Range, ...] | None:
    """Return the inclusive ranges of whole numbers in a list with commas, or None if it is none.

    ``9-`` has no end and ``-5`` starts at 0. An empty part is left out, so that a comma that was
    just typed changes nothing.
    """
    ranges: list[Range] = []
    for part in filter(None, text.split(",")):
        match = _RANGE.fullmatch(part)
        if match is None or not (match["first"] or match["last"]):
            return None
        first = int(match["first"] or 0)
        last = int(match["last"]) if match["last"] else None
        ranges.append((first, last if match["to"] else first))
    return tuple(ranges) or None


def in_ranges(values: NDArray[np.int64], ranges: tuple[Range, ...]) -> NDArray[np.bool_]:
    """Return which values, int64 [n], one of the ranges holds: bool [n]."""
    found = np.zeros(len(values), dtype=np.bool_)
    for first, last in ranges:
        found |= (values >= first) if last is None else (values >= first) & (values <= last)
    return found


Mask: TypeAlias = NDArray[np.bool_]
_Evaluate: TypeAlias = Callable[[TensorArrays], Mask]
_Integers: TypeAlias = Callable[[TensorArrays], NDArray[np.int64]]

_TERM: Final = re.compile(r'(?:"[^"]*"?|[^\s"])+')
_KEYED: Final = re.compile(r"(?P<key>[a-zA-Z_]+)(?P<sign>:|>=|<=|>|<|=)(?P<value>.*)", re.DOTALL)
_SIGN: Final = re.compile(r"(?P<sign>>=|<=|>|<|=)?(?P<value>.*)", re.DOTALL)
_DIMENSION: Final = re.compile(r"\*|[0-9]{1,19}")
_KNOWN_TYPES: Final = frozenset(name.lower() for name in TENSOR_TYPES)
_short: Final = partial(shorten, limit=40)


class TermError(Exception):
    """A term that cannot be used; its text goes on with the sentence that the term begins."""


@dataclass(frozen=True)
class TensorFilter:
    """A filter as it was typed, ready to be applied.

    Attributes:
        text: What was typed.
        problems: A sentence for each term that could not be taken as it stands.
    """

    text: str
    problems: tuple[str, ...]
    _terms: tuple[tuple[_Evaluate, bool], ...]  # and whether it is negated
    _words: tuple[tuple[str, bool], ...]

    @property
    def is_empty(self) -> bool:
        """Whether every tensor passes."""
        return not self._terms and not self._words

    def mask(self, columns: TensorArrays) -> Mask:
        """Return which rows pass, bool [n].

        Terms on numbers go first, so that words are looked for only in the names that are left.
        """
        mask = np.ones(len(columns), dtype=np.bool_)
        for evaluate, negated in self._terms:
            found = evaluate(columns)
            mask &= ~found if negated else found
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
    """Parse a filter; any text is accepted (see the module's description)."""
    problems: list[str] = []
    terms: list[tuple[_Evaluate, bool]] = []
    words: list[tuple[str, bool]] = []
    for match in _TERM.finditer(text):
        term = match[0]
        if term.count('"') % 2:
            what = "A quotation mark is not closed. The text up to the end is searched for."
            problems.append(what)
        negated = term.startswith("-") and len(term) > 1
        body = term[1:] if negated else term
        try:
            parsed = _parse_term(body, problems)
        except TermError as error:
            problems.append(f"'{_short(term)}' {error}")
            continue
        if isinstance(parsed, str):
            if parsed:
                words.append((parsed, negated))
        else:
            terms.append((parsed, negated))
    noted = tuple(dict.fromkeys(problems))
    return TensorFilter(text, noted, tuple(terms), tuple(dict.fromkeys(words)))


def read_bounds(sign: str, value: str, unit: str, example: str) -> Bounds:
    """Read a comparison for a user; ``size:>1M`` is taken like ``size>1M``.

    Args:
        sign: As for `parse_bounds`, or ``:``.
        value: What stands behind it, in lower case.
        unit: As for `parse_bounds`.
        example: How the term can be written.

    Raises:
        TermError: The value is missing, or no such number.
    """
    inner = _SIGN.fullmatch(value) if sign == ":" else None
    if inner is not None:
        sign, value = inner["sign"] or "=", inner["value"]
    if not value:
        raise _needs_value(example)
    bounds = parse_bounds(sign, value, unit)
    if bounds is None:
        raise TermError(f"is left out: there is no such number. Write it like {example}.")
    return bounds


def _parse_term(body: str, problems: list[str]) -> str | _Evaluate:
    """Return the word to look for in names, or what a term with a key means."""
    plain = body.replace('"', "").lower()
    if body == "-":
        raise TermError("still needs the word that it leaves out, like -ffn.")
    keyed = None if body.startswith('"') else _KEYED.fullmatch(body)
    if keyed is None:
        return plain
    key, sign = keyed["key"].lower(), keyed["sign"]
    value = keyed["value"].replace('"', "").lower()
    if key not in _EXAMPLES:
        what = f"There is no filter called '{_short(key)}', so names are searched for the text"
        problems.append(f"{what}. Filters are {', '.join(_EXAMPLES)}.")
        return plain
    if not value:
        raise _needs_value(_EXAMPLES[key])
    if key == "name":
        _no_comparison(key, sign)
        return value
    return _KEYS[key](key, sign, value, problems)


def _type_term(key: str, sign: str, value: str, problems: list[str]) -> _Evaluate:
    _no_comparison(key, sign)
    parts = list(filter(None, value.split(",")))
    if not parts:
        raise _needs_value(_EXAMPLES[key])
    exact = _KNOWN_TYPES & set(parts)
    starts = tuple(part.rstrip("*") for part in parts if part not in exact)
    problems += [
        f"No tensor type is called '{_short(part)}'. All that begin with it are shown."
        for part in parts
        if part not in exact and not part.endswith("*")
    ]

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
        return lambda columns: _spread([t.quantized for t in columns.types], columns.type_codes)
    raise TermError(f"is left out: it can be {_EXAMPLES[key]}.")


def _layer_term(key: str, sign: str, value: str, problems: list[str]) -> _Evaluate:
    if sign in (":", "=") and value == "none":
        return lambda columns: columns.layers < 0
    within = _count_term(key, sign, value, lambda columns: columns.layers)
    return lambda columns: within(columns) & (columns.layers >= 0)


def _dims_term(key: str, sign: str, value: str, problems: list[str]) -> _Evaluate:
    return _count_term(key, sign, value, lambda columns: columns.dimensions)


def _count_term(key: str, sign: str, value: str, column: _Integers) -> _Evaluate:
    ranges = parse_ranges(value) if sign in (":", "=") else None
    if ranges is not None:
        return lambda columns: in_ranges(column(columns), ranges)
    bounds = read_bounds(sign, value, "count", _EXAMPLES[key])
    return lambda columns: bounds.of_integers(column(columns))


def _shape_term(key: str, sign: str, value: str, problems: list[str]) -> _Evaluate:
    _no_comparison(key, sign)
    parts = re.split("[x×]", value.replace(",", "").replace("_", ""))
    unfinished = len(parts) > 1 and not parts[-1]
    if unfinished:  # "4096x" is on its way to "4096x1024": the dimensions so far must agree
        parts.pop()
    if not all(_DIMENSION.fullmatch(part) for part in parts):
        what = "is left out: it can be a dimension or all of them"
        raise TermError(f"{what}, like {_EXAMPLES[key]}.")
    wanted = [None if part == "*" else int(part) for part in parts]

    def agrees(shape: Shape) -> bool:
        if len(parts) == 1 and not unfinished:
            return wanted[0] is None or wanted[0] in shape
        if len(shape) < len(wanted) or (len(shape) != len(wanted) and not unfinished):
            return False
        return all(w is None or w == d for w, d in zip(wanted, shape, strict=False))

    return lambda columns: _spread([agrees(shape) for shape in columns.shapes], columns.shape_codes)


def _scheme_term(key: str, sign: str, value: str, problems: list[str]) -> _Evaluate:
    _no_comparison(key, sign)
    return lambda columns: _spread(
        [bool(name) and name.startswith(value) for name in columns.schemes], columns.scheme_codes
    )


def _group_term(key: str, sign: str, value: str, problems: list[str]) -> _Evaluate:
    found = _count_term(key, sign, value, lambda columns: columns.groups)
    return lambda columns: found(columns) & (columns.groups > 0)


def _number_term(key: str, sign: str, value: str, problems: list[str]) -> _Evaluate:
    unit, column = _INTEGERS[key]
    bounds = read_bounds(sign, value, unit, _EXAMPLES[key])
    return lambda columns: bounds.of_integers(column(columns))


def _bpw_term(key: str, sign: str, value: str, problems: list[str]) -> _Evaluate:
    bounds = read_bounds(sign, value, "plain", _EXAMPLES[key])
    return lambda columns: bounds.of_floats(columns.bits_per_weight)


def _no_comparison(key: str, sign: str) -> None:
    if sign not in (":", "="):
        raise TermError(f"is left out: it is text. Write it like {_EXAMPLES[key]}.")


def _needs_value(example: str) -> TermError:
    return TermError(f"still needs a value, like {example}.")


def _spread(of_code: list[bool], codes: NDArray[np.int64]) -> Mask:
    """Turn an answer for each distinct value into one for each row."""
    return np.array(of_code, dtype=np.bool_)[codes]


_Parse: TypeAlias = Callable[[str, str, str, list[str]], _Evaluate]

_KEYS: Final[dict[str, _Parse]] = {
    "type": _type_term,
    "role": _role_term,
    "layer": _layer_term,
    "file": _file_term,
    "shape": _shape_term,
    "dims": _dims_term,
    "scheme": _scheme_term,
    "group": _group_term,
    "size": _number_term,
    "offset": _number_term,
    "params": _number_term,
    "bpw": _bpw_term,
    "is": _is_term,
}
_INTEGERS: Final[dict[str, tuple[str, _Integers]]] = {  # unit and column
    "size": ("bytes", lambda columns: columns.nbytes),
    "offset": ("bytes", lambda columns: columns.offsets),
    "params": ("count", lambda columns: columns.parameters),
}
_EXAMPLES: Final = {
    "name": "name:ffn",
    "type": "type:q4_k or type:q4_*",
    "role": "role:attn",
    "layer": "layer:3-7 or layer<4",
    "file": "file:00002",
    "shape": "shape:4096 or shape:4096x1024",
    "dims": "dims:2",
    "scheme": "scheme:gptq",
    "group": "group:128 or group>64",
    "size": "size>100M",
    "offset": "offset>=1G",
    "params": "params>1B",
    "bpw": "bpw<4.5",
    "is": "is:damaged or is:quantized",
}
