"""Hostile folders of quantized models: one clear error or a told problem, soon and in little room.

What is changed: parts that are missing, of other types and shapes, or with other bytes where bytes
are read (shapes, states, indices); and values of configurations. docs/hf_quantization.md, 6.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from explorer.errors import ExplorerError
from explorer.formats import Model, open_model
from explorer.present.quantization import declared_quantization
from explorer.quantization import TENSOR_TYPES
from tests.helpers.limits import bounded
from tests.helpers.safetensors_writer import safetensors_bytes
from tests.helpers.stopwatch import in_time
from tests.soak.quantized import MODELS, STEM, PartOf, state_text

_OTHER_TYPES: Final = ("F64", "I16", "U8", "F16")
_BOMBS: Final = ("([a-z0-9._]+)+!", "re:([a-z0-9._]+)+!", "(a|a?)*" * 60 + "b", "(" * 400, "[" * 99)
_VALUES: Final[tuple[Any, ...]] = (
    *(True, None, -1, 0, 3, 1 << 31, 10**30, 0.5, 1e308, "4", "x" * 9999, "128x" * 99),
    *([], [0, 0], [True, 2], [1] * 999, [10**30, 1], {}, {"a": {"weights": {"num_bits": 99}}}),
)
_FIELDS: Final = (
    *("quant_method", "bits", "group_size", "checkpoint_format", "dynamic", "extra_config"),
    *("version", "weight_block_size", "config_groups", "format", "packing_format", "linear_class"),
    *("quant_algo", "ignore", "modules_to_not_convert"),
)
_STATES: Final = (
    *(b"", b"{", b"[]", b"\xff\xfe", b"[" * 60_000, b'{"a":' * 5_000, b"NaN"),
    state_text(shape=[-1, -2048]),
    state_text(shape=[1 << 40, 1 << 40]),
    state_text(shape=[True, 2048]),
    state_text(shape=[32, 64.0]),
    state_text(shape=[]),
    state_text(shape=[1] * 99),
    state_text(blocksize=0),
    state_text(blocksize=-64),
    state_text(blocksize=1 << 70),
    state_text(blocksize=True),
    state_text(dtype="__class__"),
    state_text(dtype=None),
    state_text(nested_offset=float("nan")),
    state_text(x=[[[[[[[[[[1]]]]]]]]]]),
)


_QUIET: Final = {  # by method: after these changes there are plain tensors, and nothing is wrong
    "bitsandbytes": tuple(f".weight_format {first!r}" for first in (b"\xff", b"\x7f", b"\x80\0")),
    "quark": (".weight of U8", ".weight_quantizer.scale of F16"),  # integers in bytes
    "sdnq": ("no .weight", "no .scale", ".weight of F16"),  # norms have a scale, too
    "torchao": ("no ._up_qdata",),
    "turbodiffusion": ("no .int8_weight",),
}


def write(folder: Path, said: object, parts: Mapping[str, PartOf]) -> Path:
    """Write a folder; bytes are zeros where they do not matter, and none where too many."""
    entries, data = {}, b""
    for suffix, (dtype, shape, content) in parts.items():
        size = math.prod(shape) * TENSOR_TYPES[dtype].block_bytes
        own = bytes(min(size, 1 << 16)) if content is None else content
        offsets = [len(data), len(data) + (size if size < 1 << 40 else len(own))]
        entries[STEM + suffix] = {"dtype": dtype, "shape": list(shape), "data_offsets": offsets}
        data += own
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps({"quantization_config": said}))
    (folder / "model.safetensors").write_bytes(safetensors_bytes(entries, data))
    return folder


def spoilt(parts: Mapping[str, PartOf]) -> Iterator[tuple[str, dict[str, PartOf]]]:
    """Yield the parts with one of them wrong, and what is."""
    for suffix, (dtype, shape, content) in parts.items():
        own = dict(parts)
        yield f"no {suffix}", {key: part for key, part in own.items() if key != suffix}
        for other in _OTHER_TYPES:
            if other != dtype:
                yield f"{suffix} of {other}", own | {suffix: (other, shape, None)}
        others = [[*shape, 1], [7, *shape], [0] * len(shape), shape[1:], [1 << 31, 1 << 14]]
        for place, length in enumerate(shape):
            for wrong in (0, length + 1, 2 * length, 1 << 33):
                others.append([*shape[:place], wrong, *shape[place + 1 :]])
        for wrong_shape in others:
            if wrong_shape != shape:
                yield f"{suffix} {wrong_shape}", own | {suffix: (dtype, wrong_shape, None)}
        if content is not None:
            size = len(content)
            for wrong_bytes in (bytes(size), b"\xff" * size, b"\x7f" * size, b"\x80" + bytes(size)):
                changed = dtype, shape, wrong_bytes[:size]
                yield f"{suffix} {wrong_bytes[:4]!r}", own | {suffix: changed}
    state = ".weight.quant_state.bitsandbytes__nf4"
    for text in _STATES if state in parts else ():
        yield f"state {text[:40]!r}", {**parts, state: ("U8", [len(text)], text)}


def look(path: Path) -> tuple[str, Model | None]:
    """Open a folder and decode what decodes; return what is told, in one text."""
    told: list[str] = []
    try:
        model = open_model(path)
    except ExplorerError as error:
        return str(error), None
    with model:
        listed: list[str] = []
        for tensor in model.tensors.rows:
            companions = tensor.companions
            if companions is None:
                listed.append(tensor.name)
                continue
            listed += [*companions.keys.values(), *companions.attached]
            assert tensor.parameters < 1 << 48
            if tensor.damage is None and tensor.parameters < 1 << 20:
                try:
                    assert tensor.dequantize().shape == tensor.shape
                except ExplorerError as error:
                    told.append(str(error))
        file = (path / "model.safetensors").read_bytes()
        header = json.loads(file[8 : 8 + int.from_bytes(file[:8], "little")])
        assert sorted(listed) == sorted(header)
        declared_quantization(model)
        told += [problem.what for problem in model.problems]
    return "; ".join(told), model


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(MODELS)))
def test_a_part_that_is_wrong(tmp_path: Path, number: int) -> None:
    said, parts = MODELS[number]
    quiet = _QUIET.get(said.get("quant_method", "turbodiffusion"), ())
    look(write(tmp_path / "sound", said, parts))  # its kernels are compiled before time counts
    for count, (what, wrong) in enumerate(spoilt(parts)):
        path = write(tmp_path / f"{count}", said, wrong)
        started = time.process_time()
        told, model = look(path)
        assert in_time(time.process_time() - started, 3.0), what
        assert told.isprintable(), what
        is_joined = model is not None and any(one.companions for one in model.tensors.rows)
        assert told or is_joined or what in quiet, what


@pytest.mark.slow
@pytest.mark.parametrize("field", _FIELDS)
def test_a_configuration_of_any_values(tmp_path: Path, field: str) -> None:
    for number, (said, parts) in enumerate(MODELS):
        for value in _VALUES[number % len(_VALUES) :: 5]:
            path = write(tmp_path / f"{number}", {**said, field: value}, parts)
            told, _ = look(path)
            assert told.isprintable()


@pytest.mark.parametrize("bomb", _BOMBS)
def test_patterns_that_other_engines_run_for_hours(tmp_path: Path, bomb: str) -> None:
    group = {"targets": [bomb] * 99, "weights": {"num_bits": 4, "group_size": 32}}
    fields = {
        "dynamic": {bomb + str(n): {"bits": 4} for n in range(99)},
        "extra_config": {bomb: {"bits": 4}},
        "config_groups": {str(n): group for n in range(99)},
        "ignore": [bomb] * 99,
        "modules_to_not_convert": [bomb] * 99,
        "exclude_modules": [bomb] * 99,
    }
    for method in ("gptq", "compressed-tensors"):
        said, parts = next(one for one in MODELS if one[0].get("quant_method") == method)
        path = write(tmp_path / method, {**said, **fields}, parts)
        bounded(lambda path=path: look(path))


@pytest.mark.parametrize("said", [[], "gptq", 5, True])
def test_a_declaration_that_is_no_object_is_told(tmp_path: Path, said: Any) -> None:
    """Weights are then what keys and shapes say."""
    _, parts = next(one for one in MODELS if one[0].get("quant_method") == "gptq")
    with open_model(write(tmp_path, said, parts)) as model:
        assert any(one.companions for one in model.tensors.rows)
        told = [problem for problem in model.problems if problem.where == "config.json"]
    assert len(told) == 1, model.problems
    assert "left out" in told[0].what


@pytest.mark.parametrize(
    "said",
    [
        {},
        *(
            {key: value}
            for key in ("bits", "group_size")
            for value in ("4", 4.5, True, {}, 1 << 40)
        ),
        {"weight_block_size": [0, 128], "dynamic": [], "extra_config": 5, "config_groups": [1]},
        {"quant_method": 5, "config_groups": {"a": {"weights": {"num_bits": "4"}}}, "ignore": {}},
        {"bits": 4, "group_size": 32, "dynamic": None, "modules_to_not_convert": None},
        {"quant_method": "auto-round", "bits": 4, "group_size": 0},
        {"quant_method": "exl2", "bits": 4.65, "group_size": "x"},
        {"quant_method": "gptq", "bits": 4, "dynamic": {}, "lm_head": False, "meta": {"bits": "x"}},
    ],
)
def test_what_means_nothing_in_a_configuration_is_no_problem(tmp_path: Path, said: Any) -> None:
    _, parts = next(one for one in MODELS if one[0].get("quant_method") == "gptq")
    with open_model(write(tmp_path, said, parts)) as model:
        assert [problem for problem in model.problems if problem.where == "config.json"] == []


@pytest.mark.parametrize("form", ["gptq_v2\u202e", "GPTQ", None])
def test_two_files_that_name_other_formats_are_told(tmp_path: Path, form: str | None) -> None:
    """What config.json says counts; zero points depend on it."""
    name, told = "quantize_config.json", "its checkpoint_format is gptq_v2"
    _, parts = next(one for one in MODELS if one[0].get("quant_method") == "gptq")
    said = {"quant_method": "gptq", "bits": 4, "group_size": 32, "checkpoint_format": "gptq"}
    write(tmp_path, said, parts)
    (tmp_path / name).write_text(json.dumps({"bits": 8, "checkpoint_format": form}))
    with open_model(tmp_path) as model:
        assert any(one.companions for one in model.tensors.rows)
        found = [problem.what for problem in model.problems if problem.where == name]
    assert all(one.isprintable() for one in found)
    assert [told in one for one in found] == [True] * (form == "gptq_v2\u202e")
