"""Patterns of a configuration against names of modules, in time that they cannot blow up.

A configuration is not trusted: a regular expression such as ``([a-z0-9._]+)+!`` would run for hours
in an engine that backtracks. What real configurations use is a small language; it is compiled here
to a machine of sets of states (Thompson), whose time is pattern times text. Any other pattern is
not evaluated, and that is said.

Source: `docs/hf_quantization.md`, section 1, "Matching rules of ignore lists"; R. Cox, "Regular
Expression Matching Can Be Simple And Fast".
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Final, NamedTuple, TypeAlias

MAX_PATTERN: Final = 512
"""Longest pattern that is evaluated; real ones are below 100 characters."""

MAX_TEXT: Final = 512
"""Longest name that a pattern is held against."""

_MAX_DEPTH: Final = 16
_ESCAPED: Final = ".\\-_/+*?()[]{}|^$"
_WORD: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")

_Test: TypeAlias = Callable[[str], bool]


class _State(NamedTuple):
    """A state: it takes a character of `test`, or is at one end of the text, or only leads on."""

    test: _Test | None
    anchor: str  # "^", "$" or ""
    follows: list[int]


class _NotEvaluatedError(Exception):
    """A pattern outside of the language."""


def matches(pattern: str, text: str) -> bool | None:
    """Return whether a pattern matches a text from its start, as Python's `re.match` would.

    Args:
        pattern: Literals, ``.``, ``\\.``, ``\\d``, ``\\w``, sets, groups with alternatives,
            ``^``, ``$``, and ``*``, ``+``, ``?`` behind any of them.

    Returns:
        None if the pattern is outside of this language or too long: it is not evaluated.
    """
    machine = _compiled(pattern) if len(pattern) <= MAX_PATTERN else None
    if machine is None or len(text) > MAX_TEXT:
        return None
    return _run(machine, text, whole=False)


def matches_wholly(pattern: str, text: str) -> bool | None:
    """Return whether a pattern matches all of a text, as `re.fullmatch` would; see `matches`."""
    machine = _compiled(pattern) if len(pattern) <= MAX_PATTERN else None
    if machine is None or len(text) > MAX_TEXT:
        return None
    return _run(machine, text, whole=True)


def _run(machine: list[_State], text: str, *, whole: bool) -> bool:
    final = len(machine) - 1
    states = _closure(machine, [0], 0, len(text))
    for place, character in enumerate(text):
        if final in states and not whole:
            return True
        taken = [
            follow
            for state in states
            if (test := machine[state].test) is not None and test(character)
            for follow in machine[state].follows
        ]
        if not taken:
            return False
        states = _closure(machine, taken, place + 1, len(text))
    return final in states


def _closure(machine: list[_State], start: list[int], place: int, length: int) -> set[int]:
    """Return all states that are reached without taking a character."""
    reached: set[int] = set()
    waiting = list(start)
    while waiting:
        state = waiting.pop()
        if state in reached:
            continue
        reached.add(state)
        test, anchor, follows = machine[state]
        closed = (anchor == "^" and place) or (anchor == "$" and place != length)
        if test is None and not closed:
            waiting += follows
    return reached


@lru_cache(maxsize=4096)
def _compiled(pattern: str) -> list[_State] | None:
    """Return the machine of a pattern; its last state accepts. None if it is not evaluated."""
    builder = _Builder(pattern)
    try:
        return builder.build()
    except _NotEvaluatedError:
        return None


class _Builder:
    """Compiles one pattern by recursive descent."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._place = 0
        self._states: list[_State] = []
        self._depth = 0

    def build(self) -> list[_State]:
        """Return the states, the first and the last of which are start and end."""
        start = self._new()
        first, last = self._alternatives()
        if self._place < len(self._pattern):
            raise _NotEvaluatedError  # a closing bracket too many
        self._states[start].follows.append(first)
        self._states[last].follows.append(self._new())
        return self._states

    def _new(self, test: _Test | None = None, anchor: str = "") -> int:
        self._states.append(_State(test, anchor, []))
        return len(self._states) - 1

    def _peek(self) -> str:
        return self._pattern[self._place : self._place + 1]

    def _alternatives(self) -> tuple[int, int]:
        """Compile what is between brackets; return its first and last state."""
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise _NotEvaluatedError
        first, last = self._new(), self._new()
        while True:
            begin, end = self._sequence()
            self._states[first].follows.append(begin)
            self._states[end].follows.append(last)
            if self._peek() != "|":
                break
            self._place += 1
        self._depth -= 1
        return first, last

    def _sequence(self) -> tuple[int, int]:
        first = last = self._new()
        while (character := self._peek()) and character not in "|)":
            begin, end = self._repeated(*self._atom())
            self._states[last].follows.append(begin)
            last = end
        return first, last

    def _repeated(self, begin: int, end: int) -> tuple[int, int]:
        """Compile ``*``, ``+`` or ``?`` behind an atom."""
        sign = self._peek()
        if not sign or sign not in "*+?":
            if sign == "{":
                raise _NotEvaluatedError
            return begin, end
        self._place += 1
        if self._peek() == "?":  # lazy: what is taken differs, not whether it matches
            self._place += 1
        if self._peek() and self._peek() in "*+":
            raise _NotEvaluatedError
        first, last = self._new(), self._new()
        self._states[first].follows.append(begin)
        self._states[end].follows.append(last)
        if sign in "*?":
            self._states[first].follows.append(last)
        if sign in "*+":
            self._states[last].follows.append(first)
        return first, last

    def _atom(self) -> tuple[int, int]:
        character = self._pattern[self._place]
        self._place += 1
        if character == "(":
            return self._group()
        if character == "[":
            return self._single(self._set())
        if character in "^$":
            state = self._new(anchor=character)
            end = self._new()
            self._states[state].follows.append(end)
            return state, end
        if character == ".":
            return self._single(lambda one: one != "\n")
        if character == "\\":
            return self._single(self._escaped())
        if character in "*+?{}":
            raise _NotEvaluatedError
        return self._single(lambda one: one == character)

    def _single(self, test: _Test) -> tuple[int, int]:
        state, end = self._new(test), self._new()
        self._states[state].follows.append(end)
        return state, end

    def _group(self) -> tuple[int, int]:
        if self._peek() == "?":
            if self._pattern[self._place : self._place + 2] != "?:":
                raise _NotEvaluatedError  # look-around, names, flags
            self._place += 2
        first, last = self._alternatives()
        if self._peek() != ")":
            raise _NotEvaluatedError
        self._place += 1
        return first, last

    def _escaped(self) -> _Test:
        character = self._peek()
        self._place += 1
        if character == "d":
            return lambda one: one.isdecimal()
        if character == "w":
            return lambda one: one in _WORD
        if character and character in _ESCAPED:
            return lambda one: one == character
        raise _NotEvaluatedError

    def _set(self) -> _Test:
        """Compile a set of characters and ranges, behind its opening bracket."""
        negated = self._peek() == "^"
        self._place += negated
        ranges: list[tuple[str, str]] = []
        while (low := self._peek()) != "]":
            if not low or low == "[":
                raise _NotEvaluatedError
            self._place += 1
            if low == "\\":
                low = self._peek()
                self._place += 1
                if low == "d":
                    ranges.append(("0", "9"))
                    continue
                if not low or low not in _ESCAPED:
                    raise _NotEvaluatedError
            high = low
            rest = self._pattern[self._place : self._place + 2]
            if len(rest) == 2 and rest[0] == "-" and rest[1] != "]":
                high = rest[1]
                self._place += 2
                if high in "\\[" or high < low:
                    raise _NotEvaluatedError
            ranges.append((low, high))
        self._place += 1
        if not ranges:
            raise _NotEvaluatedError
        return lambda one: any(low <= one <= high for low, high in ranges) != negated
