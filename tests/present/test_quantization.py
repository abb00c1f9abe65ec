"""What is declared about a quantization, beside what keys and shapes say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from explorer.cli.main import main
from explorer.formats import open_model
from explorer.present.quantization import DeclaredLine, DeclaredQuantization, declared_quantization
from explorer.present.tables.quantization import declared_record, declared_table
from tests.formats.test_hf_quantized import FOLDER, NAMES
from tests.formats.test_hf_rules import STEM, Part, write_folder


def _fp8(folder: Path, **declared: Any) -> DeclaredQuantization:
    parts: dict[str, Part] = {
        f"{STEM}.weight": ("F8_E4M3", np.zeros((256, 256), np.uint8)),
        f"{STEM}.weight_scale_inv": ("F32", np.ones((2, 2), np.float32)),
        "lm_head.weight": ("BF16", np.zeros((8, 256), np.uint16)),
    }
    with open_model(write_folder(folder, parts, {"quant_method": "fp8", **declared})) as model:
        found = declared_quantization(model)
    assert found is not None
    return found


def _line(declared: DeclaredQuantization, name: str) -> DeclaredLine:
    return next(line for line in declared.lines if line.name == name)


@pytest.mark.parametrize("name", NAMES)
def test_what_libraries_made_contradicts_nothing(name: str) -> None:
    with open_model(FOLDER / name) as model:
        declared = declared_quantization(model)
        assert declared is not None
        assert [line.name for line in declared.lines if line.differs] == []
        assert declared.origin
    assert _line(declared, "method").declared
    assert _line(declared, "bits").found


def test_each_side_in_words(tmp_path: Path) -> None:
    declared = _fp8(tmp_path, weight_block_size=[128, 128], fmt="e4m3", ignored_layers=["lm_head"])
    assert [column.title for column in declared_table(declared).shown()][1:] == [
        "Declared in config.json",
        "Keys and shapes",
    ]
    assert {line.name: (line.declared, line.found) for line in declared.lines} == {
        "method": ("fp8", "FP8"),
        "bits": (None, "8"),
        "sharing": ("weight_block_size [128, 128]", "tiles of 128 × 128"),
        "zero_points": (None, "none"),
        "format": ("fmt e4m3", None),
        "left_alone": ("lm_head", "lm_head"),
    }
    assert declared.left_alone == {"lm_head": 1}
    bits = _line(declared, "bits")
    assert declared_table(declared)["declared"].cell(bits) == "–"  # as in all other tables
    assert declared_record(declared)["lines"][1] == {
        "name": "bits",
        "declared": None,
        "found": "8",
        "differs": False,
    }


def test_other_numbers_are_marked(tmp_path: Path) -> None:
    assert _line(_fp8(tmp_path, bits=4), "bits").differs
    assert _line(_fp8(tmp_path, group_size=32), "sharing").differs
    with open_model(write_folder(tmp_path, {"a.weight": ("F32", np.zeros((2, 2)))}, {})) as model:
        assert declared_quantization(model) is None


@pytest.mark.parametrize(
    "declared",
    [
        {"quant_method": 5, "bits": "4", "ignored_layers": [5, None, {}, ""], "dynamic": [1]},
        {"config_groups": {"a": {"weights": 3}, "b": 4}, "ignore": {"a": 1}, "sym": "yes"},
        {"weight_block_size": [128], "modules_to_not_convert": ["re:([a-z0-9._]+)+!"] * 1000},
        {"ignore": ["(" * 600, "re:" + "a*" * 200, "[" * 50, "\u202e\n"], "bits": 1 << 80},
        {"group_size": -5, "desc_act": [], "version": {}, "strategy": ["x"], "dynamic": {"-:(": 1}},
    ],
)
def test_a_configuration_may_hold_anything(tmp_path: Path, declared: dict[str, Any]) -> None:
    found = _fp8(tmp_path, **declared)
    assert len(found.lines) >= 5
    assert all(len(line.declared or "") < 600 for line in found.lines)


def test_the_command_prints_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _fp8(tmp_path, bits=4)
    assert main(["inspect", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert "Declared in config.json" in printed
    assert "⚠" in printed
    assert main(["inspect", str(tmp_path), "--json"]) == 0
    record = json.loads(capsys.readouterr().out)["quantization"]
    assert record["origin"] == "config.json"
    assert [line["name"] for line in record["lines"] if line["differs"]] == ["bits"]
