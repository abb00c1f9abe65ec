"""The argument TENSOR, and what has to be said beside a tensor's figures."""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from typing import Any, TypeVar

import click

from explorer.errors import ExplorerError
from explorer.formats import Model, Tensor

_Command = TypeVar("_Command", bound=Callable[..., Any])


def tensor_argument(function: _Command) -> _Command:
    """Add the argument TENSOR: a tensor's name."""
    return click.argument("name", metavar="TENSOR")(function)


def find_tensor(model: Model, name: str) -> Tensor:
    """Return the tensor of that name.

    Raises:
        ExplorerError: There is none.
    """
    if name in model.tensors:
        return model.tensors[name]
    similar = get_close_matches(name, model.tensors, n=1)
    hint = f"did you mean {similar[0]!r}?" if similar else "inspect --tensors lists them"
    raise ExplorerError(f"it has no tensor {name!r}; {hint}", model.path)


def notes_on(model: Model, tensor: Tensor) -> list[str]:
    """Return what a reader of the tensor's figures must know.

    Converters keep the second factor of NVFP4 weights in a tensor beside them, which ggml's decoder
    does not apply, nor does this program (docs/gguf.md, section 8).
    """
    factor = tensor.name.removesuffix(".weight") + ".scale"
    if tensor.type.name == "NVFP4" and tensor.grouped is None and factor in model.tensors:
        return [f"the factor in tensor {factor!r} is not applied to these weights"]
    return []
