"""`inspect` and `check`: text for people, JSON for programs, hostile files for both."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from explorer.cli.main import main
from tests.helpers.demo import copy_demo
from tests.helpers.gguf_writer import ARRAY, F32, STRING, Array, GgufFile, TensorSpec

Capture = pytest.CaptureFixture[str]
HOSTILE = b"\x1b[31m\x1b]0;owned\x07\xe2\x80\xae\xff\r\n\xc2\x9b2J"


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_demo(tmp_path_factory.mktemp("demo"))


def inspect_json(path: Path, capsys: Capture, *options: str) -> dict[str, Any]:
    assert main(["inspect", str(path), "--json", *options]) == 0
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def test_json_has_the_promised_fields(demo: Path, capsys: Capture) -> None:
    record = inspect_json(demo, capsys)
    assert list(record) == [
        *("path", "format", "version", "byte_order", "architecture", "name", "file_type"),
        *("parameters", "bytes", "bits_per_weight", "tensor_count", "alignment", "data_offset"),
        *("tensor_types", "shards", "problems", "groups"),
    ]
    assert record["path"] == str(demo)
    assert record["file_type"] == "Q4_0"
    assert record["shards"] == [str(demo)]
    assert record["bytes"] == sum(t["bytes"] for t in record["tensor_types"].values())
    assert record["bits_per_weight"] == 8 * record["bytes"] / record["parameters"]
    assert set(record["tensor_types"]["Q4_0"]) == {"tensors", "parameters", "bytes"}


def test_json_lists_tensors_row_major_with_absolute_offsets(demo: Path, capsys: Capture) -> None:
    record = inspect_json(demo, capsys, "--tensors")
    first = record["tensors"][0]
    assert first == {
        "name": "token_embd.weight",
        "shape": [2000, 256],
        "type": "Q8_0",
        "parameters": 512_000,
        "bytes": 544_000,
        "offset": record["data_offset"],
        "file": str(demo),
        "group": None,
        "role": "token_embd",
        "layer": None,
        "bits_per_weight": 8.5,
        "problem": None,
    }
    assert len(record["tensors"]) == record["tensor_count"] == 22


def test_json_lists_metadata_with_the_first_elements_of_arrays(demo: Path, capsys: Capture) -> None:
    record = inspect_json(demo, capsys, "--metadata")
    entries = {entry["key"]: entry for entry in record["metadata"]}
    tokens = entries["tokenizer.ggml.tokens"]
    assert (tokens["type"], tokens["length"], len(tokens["value"])) == ("array[string]", 2000, 32)
    assert tokens["value"][:3] == ["<unk>", "<s>", "</s>"]
    assert entries["llama.block_count"] == {
        "key": "llama.block_count",
        "type": "uint32",
        "value": 2,
        "length": None,
    }
    assert entries["tokenizer.ggml.add_bos_token"]["value"] is True
    assert entries["tokenizer.chat_template"]["value"].startswith("{%- if messages")


def test_text_is_aligned_and_without_colour(demo: Path, capsys: Capture) -> None:
    assert main(["inspect", str(demo), "--tensors", "--metadata"]) == 0
    out = capsys.readouterr().out
    assert "\x1b" not in out
    lines = out.splitlines()
    assert lines[0] == str(demo)
    assert "  Parameters           2.50 M (2,499,872)" in lines
    assert "  File type            Q4_0" in lines
    head = next(line for line in lines if line.startswith("  Name ") and "Shape" in line)
    row = next(line for line in lines if line.startswith("  token_embd.weight "))
    assert head.index("Type") == row.index("Q8_0")
    assert row.endswith("46,272")


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    keys = [
        ("general.architecture", STRING, HOSTILE),
        ("general.name", STRING, HOSTILE),
        ("general.license", STRING, HOSTILE),
        ("k\x1b[0m\u202e", ARRAY, Array(STRING, [HOSTILE, HOSTILE])),
        ("nan", F32, float("nan")),
        ("infinite", ARRAY, Array(F32, [float("inf"), -float("inf"), 1.0])),
        ("general.file_type", STRING, "fifteen"),
    ]
    tensor = TensorSpec(HOSTILE, (2,), data=bytes(8))
    return GgufFile(keys=keys, tensors=[tensor]).write(tmp_path / "made.gguf")


def test_hostile_strings_never_reach_the_terminal(hostile: Path, capsys: Capture) -> None:
    assert main(["inspect", str(hostile), "--tensors", "--metadata"]) == 0
    main(["check", str(hostile)])
    out, err = capsys.readouterr()
    for text in (out, err):
        assert not {"\x1b", "\x07", "\u202e", "\x9b", "\r"} & set(text)
        text.encode("utf-8")
    assert "\\x1b[31m\\x1b]0;owned\\x07\\u202e\\xff\\r\\n\\x9b2J" in out


def test_hostile_strings_in_json(hostile: Path, capsys: Capture) -> None:
    assert main(["inspect", str(hostile), "--json", "--tensors", "--metadata"]) == 0
    out = capsys.readouterr().out
    assert not {"\x1b", "\x07", "\u202e", "\x9b", "\r"} & set(out)
    record = json.loads(out.encode("utf-8"))
    expected = "\x1b[31m\x1b]0;owned\x07\u202e\\xff\r\n\x9b2J"
    assert record["architecture"] == expected
    assert record["file_type"] == "fifteen"
    values = {entry["key"]: entry["value"] for entry in record["metadata"]}
    assert values["k\x1b[0m\u202e"] == [expected, expected]
    assert values["nan"] is None
    assert values["infinite"] == [None, None, 1.0]


def test_json_is_utf8_whatever_the_terminal_speaks(hostile: Path) -> None:
    command = [sys.executable, "-m", "explorer", "inspect", str(hostile), "--metadata"]
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    text = subprocess.run(command, env=environment, capture_output=True, check=False)
    assert (text.returncode, text.stderr) == (0, b"")
    assert text.stdout.isascii()
    document = subprocess.run(
        [*command, "--json"], env=environment, capture_output=True, check=False
    )
    assert json.loads(document.stdout.decode("utf-8"))


def test_errors_are_one_line_with_path_and_offset(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "bad\x1b[31m\n.gguf"
    path.write_bytes(b"GGUF" + (9).to_bytes(4, "little") + b"\0" * 16)
    for command in ("inspect", "check"):
        assert main([command, str(path)]) == 1
        out, err = capsys.readouterr()
        assert out == ""
        assert err.count("\n") == 1
        assert err.startswith(f"error: {tmp_path}/bad\\x1b[31m\\n.gguf: ")
        assert "version 9" in err
        assert err.endswith("(at byte 4)\n")


@pytest.mark.parametrize("command", ["inspect", "check"])
def test_a_missing_file(command: str, tmp_path: Path, capsys: Capture) -> None:
    assert main([command, str(tmp_path / "none.gguf"), "--json"]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert "does not exist" in err


def test_check_of_a_good_file(demo: Path, capsys: Capture) -> None:
    assert main(["check", str(demo)]) == 0
    assert capsys.readouterr().out == f"{demo}: nothing wrong found\n"
    assert main(["check", str(demo), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "path": str(demo),
        "format": "gguf",
        "ok": True,
        "problems": [],
    }


def test_check_of_a_file_that_was_cut(demo: Path, tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "cut.gguf"
    path.write_bytes(demo.read_bytes()[:-4096])
    assert main(["check", str(path)]) == 1
    assert "error" in capsys.readouterr().out
    assert main(["check", str(path), "--json"]) == 1
    record = json.loads(capsys.readouterr().out)
    assert record["ok"] is False
    assert record["problems"][0]["severity"] == "error"
    assert main(["inspect", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["problems"] == record["problems"]


def test_check_json_of_what_does_not_open(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "no.gguf"
    path.write_bytes(b"not a model at all")
    assert main(["check", str(path), "--json"]) == 1
    out, err = capsys.readouterr()
    record = json.loads(out)
    assert (record["format"], record["ok"], len(record["problems"])) == (None, False, 1)
    assert err.count("\n") == 1


def test_a_broken_file_fails_the_check_without_a_reader(tmp_path: Path, demo: Path) -> None:
    path = tmp_path / "cut.gguf"
    path.write_bytes(demo.read_bytes()[:-4096])
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "explorer", "check", str(path)]
    with os.fdopen(writer, "wb") as pipe:
        assert subprocess.run(command, stdout=pipe, check=False).returncode == 1
