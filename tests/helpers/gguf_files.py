"""What the tests of GGUF files share: types of their fixtures, shards, problems as text."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from explorer.errors import FormatError
from explorer.formats import Model
from tests.helpers.gguf_writer import I32, STRING, U16, U32, GgufFile, TensorSpec

Refuse = Callable[[bytes | GgufFile], FormatError]


class Accept(Protocol):
    """Opens what must open."""

    def __call__(self, content: bytes | GgufFile, name: str = ...) -> Model: ...


def problems(model: Model) -> list[tuple[str, str]]:
    """Return where something is wrong, and what."""
    return [(problem.where, problem.what) for problem in model.problems]


def problem_texts(model: Model) -> str:
    """Return a line for each problem."""
    return "\n".join(f"{p.severity} {p.where}: {p.what}" for p in model.problems)


def plain_value(value: object) -> object:
    """Turn lazy arrays into lists, at any depth."""
    if isinstance(value, str | int | float):
        return value
    return [plain_value(item) for item in value]  # type: ignore[attr-defined]


def shard_name(number: int, count: int = 3) -> str:
    """Return the name of shard `number`, counted from 1."""
    return f"model-{number:05d}-of-{count:05d}.gguf"


def shard(number: int, count: int = 3, tensors: int = 2, total: int = 6) -> GgufFile:
    """Return shard `number`, counted from 1, with tensors ``blk.<number - 1>.<i>``."""
    keys = [("split.no", U16, number - 1), ("split.count", U16, count)]
    keys += [("split.tensors.count", I32, total)]
    if number == 1:
        keys = [("general.architecture", STRING, "llama"), ("llama.block_count", U32, 3), *keys]
    return GgufFile(
        keys=keys,
        tensors=[
            TensorSpec(f"blk.{number - 1}.{i}", (4,), 0, bytes([(16 * number + i) % 256]) * 16)
            for i in range(tensors)
        ],
    )


def write_shards(folder: Path, count: int = 3) -> list[Path]:
    """Write a model of `count` shards with two tensors each; return their paths."""
    return [
        shard(number, count, total=2 * count).write(folder / shard_name(number, count))
        for number in range(1, count + 1)
    ]
