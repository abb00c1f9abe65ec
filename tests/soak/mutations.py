"""Ways to spoil a file: of any bytes, and of JSON whose form stays right.

A case is made from its number alone, so that a finding can be made again from what a report says.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

Mutate = Callable[[Random, bytes, bytes], bytes]

_NUMBERS = (
    *(0, 1, 2, 3, 4, 7, 8, 9, 16, 31, 32, 63, 64, 127, 128, 255, 256, 4095, 65_535, 65_536),
    *((1 << power) - 1 for power in (24, 31, 32, 53, 62, 63, 64)),
    *(1 << power for power in (24, 30, 31, 32, 53, 62, 63)),
)
_TEXTS = (
    *("", "\0", "a" * 300, "\u202e", "\ud800", "\x1b[2J", "..", "../../etc/passwd", "/etc/passwd"),
    *("C:\\x", "%s%n", "{0.__class__}", "<img src=x>", "=1+1", "NaN", "1e999", "-", " ", "\n"),
    *("__proto__", "__class__", "F32", "I64", "U8", "weight_map", "sha256:" + "0" * 64),
)
_MOST_CHANGES = 6


def spoil_bytes(chance: Random, content: bytes, other: bytes) -> bytes:
    """Change bytes, numbers and runs; cut; mix with another file."""
    changed = bytearray(content)
    for _ in range(chance.randint(1, _MOST_CHANGES)):
        chance.choice(_BYTE_CHANGES)(chance, changed, other)
    return bytes(changed)


def _flip(chance: Random, content: bytearray, _: bytes) -> None:
    if content:
        content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)


def _set(chance: Random, content: bytearray, _: bytes) -> None:
    if content:
        content[chance.randrange(len(content))] = chance.choice((0, 1, 0x7F, 0x80, 0xFF, 8, 9))


def _put_number(chance: Random, content: bytearray, _: bytes) -> None:
    code, width = chance.choice((("H", 2), ("I", 4), ("Q", 8)))
    if len(content) >= width:
        number = chance.choice(_NUMBERS) & ((1 << 8 * width) - 1)
        place = chance.randrange(len(content) - width + 1)
        content[place : place + width] = struct.pack(chance.choice("<>") + code, number)


def _nudge_number(chance: Random, content: bytearray, _: bytes) -> None:
    """Add a little to a number: counts that are wrong by one."""
    width = chance.choice((1, 4, 8))
    if len(content) >= width:
        place = chance.randrange(len(content) - width + 1)
        number = int.from_bytes(content[place : place + width], "little") + chance.randint(-3, 3)
        content[place : place + width] = (number % (1 << 8 * width)).to_bytes(width, "little")


def _remove(chance: Random, content: bytearray, _: bytes) -> None:
    start = chance.randint(0, len(content))
    del content[start : start + chance.randint(1, 40)]


def _insert(chance: Random, content: bytearray, _: bytes) -> None:
    start = chance.randint(0, len(content))
    content[start:start] = chance.randbytes(chance.randint(1, 24))


def _repeat(chance: Random, content: bytearray, _: bytes) -> None:
    start = chance.randint(0, len(content))
    run = content[start : start + chance.randint(1, 80)]
    content[start:start] = run * chance.randint(1, 8)


def _cut(chance: Random, content: bytearray, _: bytes) -> None:
    if chance.random() < 0.2:
        del content[chance.randint(0, len(content)) :]


def _mix(chance: Random, content: bytearray, other: bytes) -> None:
    start, end = sorted(chance.randint(0, len(other)) for _ in range(2))
    place = chance.randint(0, len(content))
    content[place : place + chance.choice((0, end - start))] = other[start : min(end, start + 400)]


_BYTE_CHANGES: Sequence[Callable[[Random, bytearray, bytes], None]] = (
    *(_flip, _set, _set, _put_number, _put_number, _put_number, _nudge_number, _nudge_number),
    *(_remove, _insert, _repeat, _cut, _mix),
)


def spoil_json(chance: Random, content: bytes, other: bytes) -> bytes:
    """Change values of a JSON text and write it again; now and then spoil its bytes instead."""
    if chance.random() < 0.3:
        return spoil_bytes(chance, content, other)
    value = json.loads(content)
    for _ in range(chance.randint(1, _MOST_CHANGES)):
        value = _spoil_value(chance, value, json.loads(other))
    text = json.dumps(value, ensure_ascii=chance.random() < 0.5)
    if chance.random() < 0.1:
        text = text.replace('"size"', '"digest"').replace('"b"', '"a"')
    return text.encode("utf-8", "surrogatepass")


def _spoil_value(chance: Random, value: Any, other: Any) -> Any:
    """Replace something within a value; go down first, as far as chance has it."""
    if isinstance(value, dict) and value and chance.random() < 0.85:
        key = chance.choice(list(value))
        action = chance.randrange(10)
        if action == 0:
            del value[key]
        elif action == 1:
            value[_strange(chance, other)] = value[key]
        elif action == 2:
            value[str(chance.choice(_TEXTS))] = value.pop(key)
        else:
            value[key] = _spoil_value(chance, value[key], other)
        return value
    if isinstance(value, list) and value and chance.random() < 0.85:
        place = chance.randrange(len(value))
        action = chance.randrange(8)
        if action == 0:
            del value[place]
        elif action == 1:
            value[place:place] = [value[place]] * chance.randint(1, 40)
        else:
            value[place] = _spoil_value(chance, value[place], other)
        return value
    return _strange_value(chance, other)


def _strange(chance: Random, other: Any) -> str:
    return str(chance.choice((*_TEXTS, *(other if isinstance(other, dict) else ()))))


def _strange_value(chance: Random, other: Any) -> Any:
    """Return a value that is probably not of the expected type, or not of the expected size."""
    return chance.choice(_STRANGE_VALUES)(chance, other)


def _nested(chance: Random, _: Any) -> Any:
    value: Any = chance.choice(_NUMBERS)
    for _level in range(chance.choice((1, 3, 30, 126, 127, 200))):
        value = [value] if chance.getrandbits(1) else {"a": value}
    return value


_STRANGE_VALUES: Sequence[Callable[[Random, Any], Any]] = (
    lambda chance, _: chance.choice((None, True, False)),
    lambda chance, _: chance.choice(_NUMBERS) * chance.choice((1, 1, -1, 10**30)),
    lambda chance, _: chance.choice((0.5, -0.0, 1e308, 5e-324, math.inf, math.nan, 1e16)),
    lambda chance, _: [chance.choice(_NUMBERS) for _ in range(chance.randrange(6))],
    _nested,
    lambda _, other: other,
    lambda chance, _: chance.choice(_TEXTS),
    lambda chance, _: chance.choice(_TEXTS),
)
