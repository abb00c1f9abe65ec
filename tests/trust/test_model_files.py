"""Nothing that the program writes replaces a file of a model, whatever option points at it."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterator
from itertools import cycle, product
from pathlib import Path

import click
import pytest

from explorer import model_files
from explorer.cli.main import main, program
from explorer.errors import ExplorerError
from explorer.formats import open_model
from explorer.model_files import note_model_file, refuse_model_file
from explorer.tabular import write_atomically
from tests.helpers.model_kinds import KINDS, Kind, digests
from tests.helpers.ollama_store import OllamaStore
from tests.helpers.safetensors_writer import tensors_bytes


@pytest.fixture(autouse=True)
def nothing_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget what other tests opened."""
    monkeypatch.setattr(model_files, "_noted", set())
    monkeypatch.setattr(model_files, "_folders", set())


@pytest.fixture(params=KINDS, ids=lambda kind: kind.__name__)
def model(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A model of each kind, alone below `tmp_path / "kept"`."""
    (tmp_path / "kept").mkdir()
    make: Callable[[Path], Path] = request.param
    return make(tmp_path / "kept")


def _names_of(file: Path, elsewhere: Path) -> Iterator[Path]:
    """Yield names that lead to a file: its own, and links with endings that commands ask for."""
    yield file
    elsewhere.mkdir(exist_ok=True)
    for suffix in (".csv", ".npy", ".html"):
        link = elsewhere / f"link{suffix}"
        link.unlink(missing_ok=True)
        link.symlink_to(file)
        yield link


def _commands() -> Iterator[tuple[str, str, list[str]]]:
    """Yield each option of a file of each command that takes a model, and what else it needs."""
    values = {"tensor": "blk.0.ffn_up.weight", "name": "blk.0.ffn_up.weight", "types": "Q8_0"}
    context = click.Context(program)
    for name in program.list_commands(context):
        command = program.get_command(context, name)
        assert command is not None
        needed = []
        for one in command.params:
            if isinstance(one, click.Argument):
                needed.append(values.get(str(one.name), "MODEL"))
            elif one.required and not isinstance(one.type, click.Path):
                needed += [one.opts[0], values[str(one.name)]]
        for one in command.params:
            if isinstance(one, click.Option) and isinstance(one.type, click.Path):
                yield name, one.opts[0], needed


_OPTIONS = list(_commands())


def test_the_commands_that_write_are_among_those_tried() -> None:
    tried = {(command, option) for command, option, _ in _OPTIONS}
    assert {("plan", "--csv"), ("report", "-o"), ("export", "--to")} <= tried
    assert {("survey", "--csv"), ("compare", "--csv"), ("requantize", "--csv")} <= tried


@pytest.mark.parametrize(
    ("command", "option", "needed", "kind"),
    [(*option, kind) for option, kind in zip(_OPTIONS, cycle(KINDS))],
)
def test_no_option_replaces_a_file_of_a_model(
    tmp_path: Path, command: str, option: str, needed: list[str], kind: Kind
) -> None:
    """Each option for one kind of model; what decides is asked of every kind below."""
    kept = tmp_path / "kept"
    kept.mkdir()
    model = kind(kept)
    before = digests(kept)
    arguments = [str(model) if one == "MODEL" else one for one in needed]
    for file in before:
        for name in _names_of(Path(file), tmp_path / "links"):
            main([command, *arguments, option, str(name)])
            assert digests(kept) == before, name


_READ = {"--original", "--imatrix", "--reference", "--projector", "--base", "--lora", "--draft"}
_PAIRS = [
    (command, one, other, needed)
    for (command, one, needed), (same, other, _) in product(_OPTIONS, _OPTIONS)
    if command == same and one != other and one in _READ and other != "--root"  # of names only
]


@pytest.mark.parametrize(("command", "named", "option", "needed"), _PAIRS)
def test_no_option_replaces_a_file_that_another_option_names(
    tmp_path: Path, command: str, named: str, option: str, needed: list[str]
) -> None:
    """An importance matrix of the older form has neither a suffix nor a magic that tells it."""
    (tmp_path / "model").mkdir()
    (tmp_path / "matrix").mkdir()
    model = KINDS[0](tmp_path / "model")
    matrix = tmp_path / "matrix" / "of no suffix.csv"  # beside it, tables may be replaced
    name = b"blk.0.ffn_up.weight"
    head = struct.pack(f"<ii{len(name)}sii", 1, len(name), name, 1, 32)
    matrix.write_bytes(head + struct.pack("<32f", *[1.0] * 32))
    before = digests(tmp_path / "matrix")
    arguments = [str(model) if one == "MODEL" else one for one in needed]
    if (command, named) == ("report", "--imatrix"):
        # it weights errors, and there are none without
        arguments += ["--reference", str(model), "-o", str(tmp_path / "report.html")]
    main([command, *arguments, named, str(matrix), option, str(matrix)])
    opened = str(matrix) in model_files._noted
    assert digests(tmp_path / "matrix") == before or not opened
    assert opened or named != "--imatrix"


def test_what_is_saved_by_hand_replaces_no_file_either(model: Path, tmp_path: Path) -> None:
    """As tables, plots and maps of the window do: all of them write so."""
    with open_model(model):
        for file in digests(tmp_path / "kept"):
            for name in _names_of(Path(file), tmp_path / "links"):
                with pytest.raises(ExplorerError), write_atomically(name):
                    pass


def test_hard_links_are_seen_through(model: Path, tmp_path: Path) -> None:
    with open_model(model) as opened:
        folders = {os.path.realpath(file.path.parent) for file in opened.files}
        for number, file in enumerate(digests(tmp_path / "kept")):
            if os.path.dirname(os.path.realpath(file)) in folders:
                other = tmp_path / f"{number}.csv"
                os.link(os.path.realpath(file), other)
                with pytest.raises(ExplorerError, match="is a file of the model itself"):
                    refuse_model_file(other)


@pytest.mark.parametrize("name", ["new.gguf", "new.SAFETENSORS"])
def test_no_file_is_written_under_the_name_of_a_model(tmp_path: Path, name: str) -> None:
    with pytest.raises(ExplorerError, match="is the name of a model"):
        refuse_model_file(tmp_path / name)


def test_a_link_out_of_a_models_folder_is_no_way_to_what_it_leads_to(tmp_path: Path) -> None:
    """The model does not follow `config.json` out of its folder, and writing does not either."""
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "model.safetensors").write_bytes(tensors_bytes([("a", "F32", [2, 3])]))
    elsewhere = tmp_path / "another's.json"
    elsewhere.write_text("{}")
    (folder / "config.json").symlink_to(elsewhere)
    before = digests(tmp_path)
    assert main(["survey", str(folder), "--csv", str(folder / "config.json")]) == 1
    assert digests(tmp_path) == before


def test_no_file_joins_a_store(tmp_path: Path) -> None:
    store = OllamaStore(tmp_path)
    for folder in (store.blobs, store.manifests / "registry"):
        with pytest.raises(ExplorerError, match="store of downloaded models"):
            refuse_model_file(folder / "new.csv")
    refuse_model_file(tmp_path / "new.csv")


@pytest.mark.parametrize("kind", KINDS[3:], ids=lambda kind: kind.__name__)
def test_no_folder_joins_a_store(tmp_path: Path, kind: Kind) -> None:
    """Pictures and reports of a folder go into folders that are made for them."""
    path = kind(tmp_path / "kept")
    before = set((tmp_path / "kept").rglob("*"))
    out = ["-o", str(tmp_path / "report.html")]
    for folder in (one for one in before if one.is_dir() and one.name != "models"):
        new = str(folder / "new" / "inner")
        assert main(["report", str(path), *out, "--pictures", new]) == 1, new
        assert main(["report", str(tmp_path / "kept"), "--each", "-o", new]) == 1, new
        assert set((tmp_path / "kept").rglob("*")) == before


def test_a_gguf_file_is_known_by_its_content(tmp_path: Path) -> None:
    path = tmp_path / "notes.csv"
    path.write_bytes(b"GGUF")
    with pytest.raises(ExplorerError, match="is a GGUF model"):
        refuse_model_file(path)


def test_what_the_program_wrote_may_be_replaced_beside_a_model(tmp_path: Path) -> None:
    note_model_file(tmp_path / "model.gguf")
    path = tmp_path / "tensors.csv"
    for text in ("1", "2"):
        with write_atomically(path) as stream:
            stream.write(text)
    assert path.read_text() == "2"
    other = tmp_path / "vocab.txt"
    other.write_text("a")
    with pytest.raises(ExplorerError, match="may be a part of it"):
        refuse_model_file(other)


def test_a_pipe_is_no_file(tmp_path: Path) -> None:
    refuse_model_file(Path(os.devnull))
    refuse_model_file(None)
