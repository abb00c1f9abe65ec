"""`gguf-explorer export`: a tensor's weights as a NumPy file."""

from __future__ import annotations

import shutil
from pathlib import Path

import click

from explorer.cli.options import (
    find_tensor,
    model_path,
    path_argument,
    refuse_model_file,
    root_option,
    teller,
    tensor_argument,
)
from explorer.cli.options import (
    writing_atomically as writing,
)
from explorer.cli.output import Progress, write
from explorer.errors import ExplorerError
from explorer.formats import Tensor, open_model
from explorer.formats.export import npy_bytes, write_npy
from explorer.formats.weights import check_decodable
from explorer.text import bytes_text, plain_text


def _npy_path(context: click.Context, parameter: click.Parameter, value: Path) -> Path:
    if value.suffix.lower() != ".npy":
        raise click.BadParameter("the name must end with .npy", context, parameter)
    return value


@click.command("export")
@path_argument
@tensor_argument
@click.option(
    "target",
    "--to",
    type=click.Path(path_type=Path),
    required=True,
    callback=_npy_path,
    metavar="FILE.npy",
    help="The file to write. It appears when it is complete.",
)
@root_option
def export_command(path: str, name: str, target: Path, root: str | None) -> int:
    """Write the weights of TENSOR in the model at PATH to a file, as float32.

    \b
    Examples:
      gguf-explorer export model.gguf blk.0.attn_q.weight --to attn_q.npy
      python -c "import numpy; print(numpy.load('attn_q.npy', mmap_mode='r').shape)"
    """
    with open_model(model_path(path, root)) as model:
        tensor = find_tensor(model, name)
        check_decodable(tensor)
        refuse_model_file(model, target)
        _refuse_full_disk(tensor, target)
        with writing(target) as stream, Progress(tensor.parameters) as line:
            write_npy(tensor, stream.buffer, progress=teller(line, tensor.name))
    write(f"{plain_text(str(target))}: {bytes_text(target.stat().st_size)}\n")
    return 0


def _refuse_full_disk(tensor: Tensor, target: Path) -> None:
    """Raise at once if the file will not fit, rather than after minutes."""
    try:
        free = shutil.disk_usage(target.absolute().parent).free
    except OSError:  # writing tells what is wrong with the folder
        return
    needed = npy_bytes(tensor)
    if needed > free:
        what = f"needs {bytes_text(needed)}, and {bytes_text(free)} are free on its disk"
        raise ExplorerError(what, target)
