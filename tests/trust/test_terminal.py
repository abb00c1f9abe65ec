"""What commands print of a hostile model: nothing that acts on a terminal, a sheet or a page."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import pytest

from explorer.cli.main import main
from tests.helpers.commands import COMMANDS, calls
from tests.helpers.hostile import ATTACKS, HostileModels
from tests.helpers.spreadsheet import is_formula

_ACTING = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e0fff\ud800-\udfff]"
)
_NAMES = {
    "gguf": [ATTACKS[0], ATTACKS[1]],
    "llama": [ATTACKS[5].replace("\x1b", "\\x1b"), ATTACKS[3], ATTACKS[17], "blk.0.attn_q.weight"],
    "safetensors": [ATTACKS[0], ATTACKS[9]],
    "manifest": [ATTACKS[4]],
}


def acting(text: str) -> set[str]:
    """Return the characters of a text that act on a terminal, line ends and tabs left out."""
    return set(_ACTING.findall(text))


_SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in ("gguf", "manifest")]


@pytest.mark.parametrize("model", ["llama", "safetensors", *_SLOW])
def test_no_command_prints_what_acts_on_a_terminal(
    hostile_models: HostileModels,
    model: str,
    tmp_path: Path,
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    path = getattr(hostile_models, model)
    stores = [("ollama", hostile_models.store), ("folder", hostile_models.folder)]
    used = set()
    for arguments in calls(path, hostile_models.llama, _NAMES[model], stores, tmp_path):
        used.add(arguments[0])
        code = main(arguments)
        out, err = (raw.decode() for raw in capfdbinary.readouterr())
        assert code in {0, 1}, (arguments, err)
        assert acting(out) == set(), arguments
        assert acting(err) == set(), arguments
        assert "mistake of the program" not in err, (arguments, err)
        assert "Traceback" not in err
        if "--json" in arguments and out:
            json.loads(out)
    assert used == COMMANDS
    look_at_files(tmp_path)


def look_at_files(folder: Path) -> None:
    """Check what commands wrote: names that were asked for, and contents that do not act."""
    assert {path.name for path in folder.iterdir()} <= {
        *("cache", "q.csv", "weights.npy", "survey.csv", "compare.csv", "plan.csv"),
        *("report.html", "reference.html"),
    }
    tables = list(folder.glob("*.csv"))
    assert tables
    for path in tables:
        with open(path, encoding="utf-8", newline="") as file:
            cells = [cell for row in csv.reader(file) for cell in row]
        assert [cell for cell in cells if is_formula(cell)] == []
    for path in folder.glob("*.html"):
        page = path.read_text(encoding="utf-8")
        for word in ("<img src=x", "<script", "<b>bold", "<a href='file", "\x1b", "\u202e", "\0"):
            assert word not in page, (path.name, word)


@pytest.mark.parametrize("word", [*(word for word in ATTACKS if "\0" not in word), "\udcff"])
def test_no_message_prints_what_acts_on_a_terminal(
    word: str, hostile_models: HostileModels, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    """A word of a stranger, such as a file name completed by the shell, in every place."""
    llama = str(hostile_models.llama)
    for arguments in (
        ["inspect", "--", word],
        ["inspect", "--root", word, "ollama:" + word],
        ["stats", llama, "--", word + "?"],
        ["library", "--root", "folder=" + word],
        ["library", "--root", word],
        ["plan", llama, "--gpu", word],
        ["plan", llama, "--context", word],
        ["plan", llama, "--projector", word],
        ["requantize", llama, "blk.0.attn_q.weight", "--to", word],
        ["export", llama, "blk.0.attn_q.weight", "--to", word],
        ["completion", word],
        [word + "?", "--fresh", "--" + word],
    ):
        code = main(arguments)
        out, err = (raw.decode() for raw in capfdbinary.readouterr())
        assert code in {0, 1, 2}, arguments
        assert acting(out + err) == set(), arguments
        assert "mistake of the program" not in err, (arguments, err)
