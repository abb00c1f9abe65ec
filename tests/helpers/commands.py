"""Every command of the command line, called on a model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from explorer.cli.main import COMMANDS as COMMAND_PLACES

COMMANDS = frozenset(COMMAND_PLACES)
"""Names of all commands."""


def calls(
    path: Path, other: Path, tensors: Sequence[str], stores: Sequence[tuple[str, Path]], out: Path
) -> Iterator[list[str]]:
    """Yield the arguments of calls that together use every command.

    Args:
        path: A model.
        other: A model that it is compared with.
        tensors: Names of tensors of the first.
        stores: Kind and folder of stores to list.
        out: Where files may be written.
    """
    model, reference = str(path), str(other)
    yield ["inspect", model, "--tensors", "--metadata", "--recipe"]
    yield ["inspect", model, "--tensors", "--metadata", "--recipe", "--json"]
    yield ["check", model]
    yield ["check", model, "--json"]
    yield ["recipes", model, "--no-errors", "--json"]
    yield ["recipes", model, "--recipe", "Q4_K_M", "--original", reference]
    for name in tensors:
        yield ["stats", model, "--", name]
        yield ["stats", model, "--json", "--", name]
        yield ["requantize", model, "--to", "Q4_0,Q8_0", "--", name]
        yield [
            "requantize",
            model,
            "--to",
            "Q8_0",
            "--json",
            "--csv",
            str(out / "q.csv"),
            "--",
            name,
        ]
        yield ["export", model, "--to", str(out / "weights.npy"), "--", name]
    yield ["survey", model, "--csv", str(out / "survey.csv")]
    yield ["survey", model, "--json"]
    yield ["compare", reference, model, "--csv", str(out / "compare.csv")]
    yield ["compare", reference, model, "--json"]
    yield ["diff", reference, model]
    yield ["diff", reference, model, "--errors", "--json"]
    for extra in ([], ["--json"], ["--csv", str(out / "plan.csv")]):
        yield ["plan", model, "--gpu", "24GiB", "--context", "4096", "--profile", "all", *extra]
    yield ["report", model, "--gpu", "24GiB", "-o", str(out / "report.html")]
    yield ["report", model, "--reference", reference, "-o", str(out / "reference.html")]
    for kind, folder in stores:
        yield ["library", "--root", f"{kind}={folder}", "--blobs"]
        yield ["library", "--root", f"{kind}={folder}", "--blobs", "--json"]
    yield ["completion", "bash"]
