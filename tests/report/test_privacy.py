"""Folders stay out of a report; file names, URLs and text that looks alike stay in."""

from __future__ import annotations

from pathlib import Path

import pytest

from explorer.errors import FormatError
from explorer.report.privacy import Privacy, message, without_paths


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/home/ada/secret/imatrix.dat", "…/imatrix.dat"),
        ("cannot read /home/ada/x.gguf: gone", "cannot read …/x.gguf: gone"),
        ("'/a/b.gguf' and '/c/d.gguf'", "'…/b.gguf' and '…/d.gguf'"),
        (r"C:\Users\Ada\models\x.gguf", "…/x.gguf"),
        (r"\\server\share\x.gguf", "…/x.gguf"),
        ("~/models/x.gguf", "…/x.gguf"),
        ("/home/ada/", "…/"),
        ("https://huggingface.co/google/gemma-3", "https://huggingface.co/google/gemma-3"),
        ("tokens/s and 3/4", "tokens/s and 3/4"),
        ("blk.0.attn_q.weight", "blk.0.attn_q.weight"),
        ("</s></think>", "</s></think>"),
    ],
)
def test_absolute_paths(text: str, expected: str) -> None:
    assert without_paths(text) == expected


def test_known_folders_go_wherever_they_stand(tmp_path: Path) -> None:
    folder = tmp_path / "My Models (private)"
    folder.mkdir()
    privacy = Privacy([folder / "model.gguf"])
    assert privacy.clean(f"{folder}/model.gguf: damaged") == "model.gguf: damaged"
    assert privacy.clean(f"in {folder}") == "in …"
    assert privacy.clean(f"{Path.home()}/other/x") == "other/x"
    assert str(tmp_path) not in privacy.clean(f"{folder.resolve()}/shard-2.gguf")


def test_a_relative_folder_goes_too_but_not_from_a_url() -> None:
    privacy = Privacy([Path("customer/model.gguf")])
    assert privacy.clean("customer/model.gguf") == "model.gguf"
    assert privacy.clean("https://host/customer/model") == "https://host/customer/model"
    assert privacy.clean("customers/x") == "customers/x"


def test_text_is_made_plain_as_well() -> None:
    privacy = Privacy([Path("/data/x.gguf")])
    assert privacy.clean("\x1b[31m\u202e\x00") == "\\x1b[31m\\u202e\\x00"
    assert privacy.clean("a\nb", True) == "a\nb"


def test_an_error_is_shown_without_its_path() -> None:
    error = FormatError("blob '/home/ada/blobs/sha256-1' is missing", "/home/ada/x.gguf", 24)
    assert message(error) == "blob '…/sha256-1' is missing"
