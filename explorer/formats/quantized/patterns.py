"""Patterns of a configuration against names of modules, in time that they cannot blow up.

A configuration is not trusted: a regular expression such as ``([a-z0-9._]+)+!`` would run for hours
in an engine that backtracks. What real configurations use is a small language; it is compiled here
to a machine of sets of states (Thompson), whose time is pattern times text. Any other pattern is
not evaluated, and that is said.

Source: `docs/hf_quantization.md`, section 1, "Matching rules of ignore lists"; R. Cox, "Regular
Expression Matching Can Be Simple And Fast".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
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


MAX_WORK: Final = 2_000_000
"""Most steps that all patterns of a model may take together: less than a second."""

_TO_COMPILE: Final = 50  # steps for each character

_MOST_KEPT: Final = 4096  # transitions of one pattern

MAX_DATA: Final = 8 << 20
"""Most bytes of small tensors that the listing of a model reads."""

_work: ContextVar[list[int] | None] = ContextVar("work", default=None)


@contextmanager
def bounded_work(most: int = MAX_WORK, most_bytes: int = MAX_DATA) -> Iterator[None]:
    """Bound what is done inside for one model: steps of patterns, and bytes of small tensors."""
    token = _work.set([most, most_bytes])
    try:
        yield
    finally:
        _work.reset(token)


class _State(NamedTuple):
    """A state: it takes a character of `test`, or is at one end of the text, or only leads on."""

    test: _Test | None
    anchor: str  # "^", "$" or ""
    follows: list[int]


class _NotEvaluatedError(Exception):
    """A pattern outside of the language, or too much work."""


def matches(pattern: str, text: str) -> bool | None:
    """Return whether a pattern matches a text from its start, as Python's `re.match` would.

    Args:
        pattern: Literals, ``.``, ``\\.``, ``\\d``, ``\\w``, sets, groups with alternatives,
            ``^``, ``$``, and ``*``, ``+``, ``?`` behind any of them.

    Returns:
        None if the pattern is outside of this language or too long: it is not evaluated.
    """
    return _evaluate(pattern, text, whole=False)


def matches_wholly(pattern: str, text: str) -> bool | None:
    """Return whether a pattern matches all of a text, as `re.fullmatch` would; see `matches`."""
    return _evaluate(pattern, text, whole=True)


def _evaluate(pattern: str, text: str, *, whole: bool) -> bool | None:
    if not may_evaluate() or len(pattern) > MAX_PATTERN or len(text) > MAX_TEXT:
        return None
    machine = _compiled(pattern)
    if machine is None:
        return None
    try:
        return machine.run(text, whole=whole)
    except _NotEvaluatedError:
        return None


def may_evaluate() -> bool:
    """Return whether patterns are still evaluated; after too much work none is."""
    left = _work.get()
    return left is None or left[0] >= 0


def may_read(nbytes: int) -> bool:
    """Return whether a listing may read so many bytes more, and count them."""
    left = _work.get()
    if left is None:
        return True
    left[1] -= nbytes
    return left[1] >= 0


def _count(steps: int) -> None:
    left = _work.get()
    if left is None:
        return
    left[0] -= steps
    if left[0] < 0:
        raise _NotEvaluatedError


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> _Machine | None:
    """Return the machine of a pattern; None if it is not evaluated."""
    left = _work.get()
    if left is not None:
        left[0] -= _TO_COMPILE * len(pattern)
    try:
        return _Machine(_Builder(pattern).build())
    except _NotEvaluatedError:
        return None


_States: TypeAlias = frozenset[int]


class _Machine:
    """Runs over a text with the set of states that it can be in; sets that it met are kept.

    Args:
        states: The first is the start, the last accepts.
    """

    def __init__(self, states: list[_State]) -> None:
        self._states = states
        self._start: _States | None = None  # found on first use, which counts its work
        self._known: dict[tuple[_States, str], _States] = {}

    def run(self, text: str, *, whole: bool) -> bool:
        """Return whether it accepts a text, or, if not `whole`, the beginning of it."""
        final, known = len(self._states) - 1, self._known
        _count(1 + len(text))
        if not text:
            return final in self._closure([0], {"^", "$"})
        if self._start is None:
            self._start = self._closure([0], {"^"})
        current = self._start
        for character in text:
            if final in current and not whole:
                return True
            key = (current, character)
            if key not in known:
                if len(known) == _MOST_KEPT:
                    known.clear()
                known[key] = self._step(current, character)
            current = known[key]
            if not current:
                return False
        return final in current or final in self._closure(current, {"$"})

    def _step(self, current: _States, character: str) -> _States:
        taken = [
            follow
            for state in current
            if (test := self._states[state].test) is not None and test(character)
            for follow in self._states[state].follows
        ]
        return self._closure(taken, set())

    def _closure(self, start: Iterable[int], passed: set[str]) -> _States:
        """Return all states that are reached without taking a character.

        Args:
            passed: Anchors that hold there.
        """
        reached: set[int] = set()
        waiting = list(start)
        while waiting:
            state = waiting.pop()
            if state in reached:
                continue
            reached.add(state)
            test, anchor, follows = self._states[state]
            if test is None and (not anchor or anchor in passed):
                waiting += follows
        _count(len(reached))
        return frozenset(reached)


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
            if self._peek() and self._peek() in "*+?":
                raise _NotEvaluatedError
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
