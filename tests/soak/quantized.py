"""Folders of quantized models for the campaign: one of each method, and ways to spoil them.

A case is the text of `config.json`, a line's end, and the bytes of `model.safetensors`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, Final, TypeAlias

import numpy as np

from explorer.quantization import TENSOR_TYPES
from tests.helpers.safetensors_writer import safetensors_bytes
from tests.soak.mutations import spoil_bytes, spoil_json

PartOf: TypeAlias = tuple[str, list[int], bytes | None]  # type, shape, and bytes that matter
STEM: Final = "model.layers.0.mlp.up_proj"
_MOST_BYTES: Final = 1 << 14  # of a tensor whose shape was changed
_LENGTHS: Final = (0, 1, 2, 3, 4, 7, 8, 12, 16, 31, 32, 33, 64, 96, 128, 1 << 20, 1 << 31, 1 << 47)
_TYPES: Final = ("I32", "U8", "I8", "F16", "BF16", "F32", "F8_E4M3", "F8_E8M0", "I64", "U32", "I16")


def _numbers(*numbers: int, width: int = 8) -> bytes:
    return b"".join(number.to_bytes(width, "little") for number in numbers)


def state_text(**fields: Any) -> bytes:
    known = {"quant_type": "nf4", "blocksize": 64, "dtype": "bfloat16", "shape": [32, 64]}
    return json.dumps(known | fields).encode()


_NF4: Final[Mapping[str, PartOf]] = {
    ".weight": ("U8", [1024, 1], None),
    ".weight.absmax": ("F32", [32], None),
    ".weight.quant_map": ("F32", [16], None),
    ".weight.quant_state.bitsandbytes__nf4": ("U8", [len(state_text())], state_text()),
}
_NESTED: Final = state_text(nested_blocksize=256, nested_offset=0.5, nested_dtype="float32")
_HQQ: Final[Mapping[str, PartOf]] = {
    ".W_q": ("U8", [32, 32], None),
    ".scale": ("F16", [64, 1], None),
    ".zero": ("F16", [64, 1], None),
    ".shape": ("I64", [2], _numbers(32, 64)),
    ".axis": ("I32", [], _numbers(1, width=4)),
    ".nbits": ("I32", [], _numbers(4, width=4)),
    ".group_size": ("I32", [], _numbers(32, width=4)),
    ".packing": ("U8", [7], b"4bit_u8"),
    ".compute_dtype": ("U8", [8], b"bfloat16"),
}
_GROUP: Final = {"targets": ["re:.*_proj", "Linear"], "weights": {"num_bits": 4, "group_size": 32}}
_CT: Final = {"quant_method": "compressed-tensors", "config_groups": {"group_0": _GROUP}}
_DYNAMIC: Final = {r"+:.*\.up_proj": {"bits": 4, "group_size": 32}, "-:.*lm_head": {}}

_TURNED: Final = b'{"format": "int8_tensorwise", "convrot": true}'

MODELS: Final[Sequence[tuple[Mapping[str, Any], Mapping[str, PartOf]]]] = (
    (
        {"quant_method": "gptq", "bits": 4, "group_size": 32, "dynamic": _DYNAMIC},
        {
            ".qweight": ("I32", [8, 32], None),
            ".qzeros": ("I32", [2, 4], None),
            ".scales": ("F16", [2, 32], None),
            ".g_idx": ("I32", [64], _numbers(*[i % 2 for i in range(64)], width=4)),
        },
    ),
    (
        {"quant_method": "gptq", "bits": 3, "group_size": 32, "checkpoint_format": "gptq_v2"},
        {
            ".qweight": ("I32", [6, 32], None),
            ".qzeros": ("I32", [2, 3], None),
            ".scales": ("BF16", [2, 32], None),
        },
    ),
    (
        {"quant_method": "awq", "bits": 4, "group_size": 32, "version": "gemm"},
        {
            ".qweight": ("I32", [64, 4], None),
            ".qzeros": ("I32", [2, 4], None),
            ".scales": ("F16", [2, 32], None),
        },
    ),
    (
        {"quant_method": "awq", "bits": 4, "group_size": 64, "version": "gemv"},
        {
            ".qweight": ("I32", [48, 16], None),
            ".qzeros": ("I32", [48, 2], None),
            ".scales": ("F16", [48, 16], None),
        },
    ),
    ({"quant_method": "bitsandbytes", "load_in_4bit": True}, _NF4),
    (
        {"quant_method": "bitsandbytes", "load_in_4bit": True},
        {
            **_NF4,
            ".weight.absmax": ("U8", [32], None),
            ".weight.nested_absmax": ("F32", [1], None),
            ".weight.nested_quant_map": ("F32", [256], None),
            ".weight.quant_state.bitsandbytes__nf4": ("U8", [len(_NESTED)], _NESTED),
        },
    ),
    (
        {"quant_method": "bitsandbytes", "load_in_8bit": True},
        {
            ".weight": ("I8", [32, 64], None),
            ".SCB": ("F32", [32], None),
            ".weight_format": ("U8", [], b"\0"),
        },
    ),
    (
        {"quant_method": "fp8", "weight_block_size": [16, 32]},
        {".weight": ("F8_E4M3", [40, 64], None), ".weight_scale_inv": ("F32", [3, 2], None)},
    ),
    (
        {"quant_method": "fp8", "weight_block_size": [16, 32]},
        {"": ("F8_E4M3", [2, 40, 64], None), "_scale_inv": ("F32", [2, 3, 2], None)},
    ),
    (
        {"quant_method": "fp8", "expert_dtype": "fp4"},
        {".weight": ("I8", [16, 32], None), ".scale": ("F8_E8M0", [16, 2], None)},
    ),
    (
        _CT,
        {
            ".weight_packed": ("I32", [32, 8], None),
            ".weight_scale": ("BF16", [32, 2], None),
            ".weight_zero_point": ("I32", [4, 2], None),
            ".weight_shape": ("I64", [2], _numbers(32, 64)),
        },
    ),
    (
        _CT,
        {
            ".weight_packed": ("I32", [32, 8], None),
            ".weight_scale": ("BF16", [32, 2], None),
            ".weight_g_idx": ("I32", [64], _numbers(*[i % 2 for i in range(64)], width=4)),
            ".weight_shape": ("I64", [2], _numbers(32, 64)),
        },
    ),
    (
        _CT,
        {
            ".weight": ("I8", [32, 64], None),
            ".weight_scale": ("BF16", [32, 1], None),
            ".weight_zero_point": ("I8", [32, 1], None),
        },
    ),
    (
        _CT,
        {
            ".weight_packed": ("U8", [16, 32], None),
            ".weight_scale": ("F8_E4M3", [16, 4], None),
            ".weight_global_scale": ("F32", [1], None),
            ".input_global_scale": ("F32", [1], None),
        },
    ),
    (
        {"quant_method": "modelopt", "quant_algo": "NVFP4", "exclude_modules": ["lm_head"]},
        {
            ".weight": ("U8", [16, 32], None),
            ".weight_scale": ("F8_E4M3", [16, 4], None),
            ".weight_scale_2": ("F32", [], None),
            ".input_scale": ("F32", [], None),
        },
    ),
    (
        {"quant_method": "mxfp4"},
        {"_blocks": ("U8", [2, 8, 2, 16], None), "_scales": ("U8", [2, 8, 2], None)},
    ),
    ({"quant_method": "hqq"}, _HQQ),
    (
        {"quant_method": "hqq"},
        {
            **_HQQ,
            ".W_q": ("I32", [4, 64], None),
            ".scale": ("F16", [1, 64], None),
            ".zero": ("F16", [1, 64], None),
            ".axis": ("I32", [], _numbers(0, width=4)),
            ".packing": ("U8", [7], b"3bit_32"),
        },
    ),
    (
        {"quant_method": "quanto", "weights": "int4"},
        {
            ".weight._data._data": ("U8", [16, 64], None),
            ".weight._scale": ("BF16", [32, 1], None),
            ".weight._shift": ("BF16", [32, 1], None),
            ".bias": ("BF16", [32], None),
        },
    ),
    (
        {"quant_method": "torchao", "quant_type": {"default": "x"}},
        {
            "._weight_qdata": ("I8", [32, 64], None),
            "._weight_scale": ("BF16", [32, 1], None),
            "._weight_zero_point": ("I8", [32, 1], None),
        },
    ),
    (
        {"quant_method": "bitnet", "linear_class": "bitlinear"},
        {".weight": ("U8", [8, 64], None), ".weight_scale": ("BF16", [1], None)},
    ),
    (
        {"quant_method": "quark", "export": {"pack_method": "reorder"}},
        {".weight": ("U8", [32, 32], None), ".weight_quantizer.scale": ("U8", [32, 2], None)},
    ),
    (
        {"quant_method": "quark"},
        {".weight": ("I32", [64, 4], None), ".weight_scale": ("F16", [2, 32], None)},
    ),
    (
        {"quant_method": "sdnq", "weights_dtype": "uint4", "modules_dtype_dict": {"int5": []}},
        {".weight": ("U8", [1024], None), ".scale": ("BF16", [32, 2, 1], None)},
    ),
    (
        {},
        {
            ".weight": ("I8", [32, 64], None),
            ".weight_scale": ("F32", [32, 1], None),
            ".comfy_quant": ("U8", [len(_TURNED)], _TURNED),
        },
    ),
    ({}, {".int8_weight": ("I8", [40, 64], None), ".scale": ("F32", [3, 2], None)}),
    (
        {"quant_method": "torchao"},
        {"._up_qdata": ("F8_E4M3", [2, 8, 64], None), "._up_scale": ("F32", [2, 8, 1], None)},
    ),
)
"""For each method what is declared, and the parts of a weight by suffix."""


@cache
def quantized_seeds() -> Sequence[bytes]:
    """Return a folder for each method, and for each kind of one."""
    chance = Random(20)
    found = []
    for said, parts in MODELS:
        entries, data = {}, b""
        for suffix, (dtype, shape, content) in parts.items():
            size = math.prod(shape) * TENSOR_TYPES[dtype].block_bytes
            own = chance.randbytes(size) if content is None else content
            offsets = [len(data), len(data) + len(own)]
            entries[STEM + suffix] = {"dtype": dtype, "shape": shape, "data_offsets": offsets}
            data += own
        config = {"model_type": "llama", "hidden_size": 64, "quantization_config": said}
        text = json.dumps(config, separators=(",", ":")).encode()
        found.append(text + b"\n" + safetensors_bytes(entries, data))
    return found


@cache
def large_quantized() -> Sequence[bytes]:
    """Return a folder of some thousand modules."""
    config, _, weights = quantized_seeds()[0].partition(b"\n")
    entries, data = _tensors(weights)
    many = {
        name.replace(".0.", f".{number}."): entry
        for number in range(2_000)
        for name, entry in entries.items()
    }
    return [config + b"\n" + safetensors_bytes(many, data)]


def write_folder(path: Path, content: bytes) -> None:
    """Write a case; the path is that of its config.json."""
    config, _, weights = content.partition(b"\n")
    path.write_bytes(config)
    (path.parent / "model.safetensors").write_bytes(weights)


def spoil_folder(chance: Random, content: bytes, other: bytes) -> bytes:
    """Spoil the configuration, the keys, types and shapes of tensors, or any bytes."""
    config, _, weights = content.partition(b"\n")
    others = other.partition(b"\n")
    kind = chance.randrange(8)
    if kind < 2:
        config = spoil_json(chance, config, others[0]).replace(b"\n", b" ")
    if kind == 2:
        config = others[0]  # of another method
    if kind >= 3 or chance.random() < 0.3:
        spoil = spoil_bytes if chance.random() < 0.1 else _spoil_tensors
        weights = spoil(chance, weights, others[2])
    return config + b"\n" + weights


def _tensors(file: bytes) -> tuple[dict[str, Any], bytes]:
    length = int.from_bytes(file[:8], "little")
    entries: dict[str, Any] = json.loads(file[8 : 8 + length])
    return entries, file[8 + length :]


def _spoil_tensors(chance: Random, file: bytes, other: bytes) -> bytes:
    """Change keys, types, shapes and bytes, and write the file as its header then says."""
    entries, data = _tensors(file)
    held = {
        name: (one["dtype"], one["shape"], data[slice(*one["data_offsets"])])
        for name, one in entries.items()
    }
    more, more_data = _tensors(other)
    for _ in range(chance.randint(1, 4)):
        name = chance.choice(list(held) or [STEM])
        dtype, shape, own = held.get(name, ("U8", [0], b""))
        action = chance.randrange(7)
        if action == 0:
            held.pop(name, None)
        elif action == 1:
            held[chance.choice(list(more))] = held.pop(name, (dtype, shape, own))
        elif action == 2:
            one = more[added := chance.choice(list(more))]
            held[added] = one["dtype"], one["shape"], more_data[slice(*one["data_offsets"])]
        elif action == 3:
            held[name] = chance.choice(_TYPES), shape, own
        elif action == 4:
            held[name] = dtype, _other_shape(chance, shape), own
        else:
            held[name] = dtype, shape, spoil_bytes(chance, own, data)[: len(own)]
    entries, data = {}, b""
    for name, (dtype, shape, own) in held.items():
        size = math.prod(shape) * TENSOR_TYPES[dtype].block_bytes
        fits = size <= _MOST_BYTES and chance.random() < 0.98
        bytes_of = np.frombuffer(own or b"\0", np.uint8)
        stored = np.resize(bytes_of, size).tobytes() if fits else own
        offsets = [len(data), len(data) + len(stored)]
        entries[name] = {"dtype": dtype, "shape": shape, "data_offsets": offsets}
        data += stored
    return safetensors_bytes(entries, data)


def _other_shape(chance: Random, shape: Sequence[int]) -> list[int]:
    changed = list(shape)
    action = chance.randrange(5)
    if action == 0 or not changed:
        changed.insert(chance.randint(0, len(changed)), chance.choice(_LENGTHS))
    elif action == 1:
        del changed[chance.randrange(len(changed))]
    elif action == 2:
        changed.reverse()
    else:
        place = chance.randrange(len(changed))
        near = changed[place] + chance.choice((-1, 1, changed[place]))
        changed[place] = chance.choice((*_LENGTHS, near, near, near))
    return [max(0, length) for length in changed]
