"""Makes llama_cpp_LIBRARY.json.gz: what a backend of llama.cpp reserves, in bytes.

Run from the repository's root, with MEASURE built from `measure.cpp` beside this script, and SHARED
the folder with `reference` and `tools`:

  python tests/data/planner/make_backends.py CUDA|Vulkan|Metal MEASURE SHARED

None needs a GPU. Mesa's lavapipe is a Vulkan device (Debian: mesa-vulkan-drivers, libvulkan-dev,
glslc, spirv-headers); of CUDA's and Metal's backends the own code runs, linked with `no_cuda.cpp`
in place of CUDA's runtime and with `no_metal.cpp` in place of Apple's. Models are headers without
weights. llama.cpp only simulates its allocations, but with two GPUs, with drawn settings and on
Metal: a simulation forgets which device a tensor was pinned to (`ggml_backend_sched_reserve_size`),
and has no addresses, by which Metal finds its order. Metal is asked about models that lie on it as
a whole. It and drawn settings with Vulkan are not asked about the largest, which llama.cpp takes
minutes to load.
"""

from __future__ import annotations

import gzip
import importlib.util
import json
import os
import random
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from explorer.quantization import TENSOR_TYPES

HERE = Path(__file__).resolve().parent
RANGE = "4294967295"  # maxStorageBufferRange of NVIDIA's and AMD's drivers; lavapipe has 128 MiB
USUAL = {
    "context": 4096, "parallel": 1, "batch": 2048, "ubatch": 512, "gpu_layers": 999, "devices": 1,
    "flash_attention": None, "kv_unified": False, "type_k": "f16", "type_v": "f16",
    "offload_kv": True, "swa_full": False, "all_logits": False, "cpu_moe_layers": 0,
}  # fmt: skip
SETTINGS: dict[str, dict[str, Any]] = {
    "four slots": {"parallel": 4, "kv_unified": True},
    "a long q8_0 cache": {"context": 32768, "type_k": "q8_0", "type_v": "q8_0"},
    "no flash attention": {"context": 8192, "parallel": 2, "flash_attention": False},
    "a large batch": {"context": 16384, "ubatch": 2048, "flash_attention": True},
    "small, a mixed cache": {
        "context": 1000, "parallel": 3, "batch": 256, "ubatch": 128, "type_k": "q8_0",
    },
    "ten layers, all logits": {"context": 8192, "gpu_layers": 10, "all_logits": True},
    "experts and whole windows": {"context": 8192, "cpu_moe_layers": 4, "swa_full": True},
    "the cache on the CPU": {"offload_kv": False, "type_k": "bf16", "type_v": "bf16"},
}  # fmt: skip
MORE: dict[str, dict[str, Any]] = {
    "q8_0 and f16": {"type_k": "q8_0"},
    "f16 and q4_0": {"type_v": "q4_0"},
    "q5_1": {"type_k": "q5_1", "type_v": "q5_1"},
    "iq4_nl": {"type_k": "iq4_nl", "type_v": "iq4_nl"},
    "q4_0 and q8_0": {"type_k": "q4_0", "type_v": "q8_0"},
    "bf16 and f16": {"type_k": "bf16"},
    "f32 and f16": {"type_k": "f32"},
    "q8_0 off": {"type_k": "q8_0", "flash_attention": False},
    "alone": {},
}
"""What CUDA and Metal are asked besides, at 8,192 tokens: types of keys and values."""
WHOLE = {"gpu_layers": 999, "devices": 1, "cpu_moe_layers": 0}
MOST_BYTES = 3 << 30
"""What is loaded with Vulkan and Metal weighs no more."""
NAMES = (
    "qwen35-4b", "qwen35-9b", "qwen35-27b", "qwen35-35b-a3b", "gemma4-12b", "gemma4-e2b",
    "gemma4-26b-a4b", "embeddinggemma", "gpt-oss-120b", "smollm2-135m",
)  # fmt: skip
"""Models of `make_models.py`, beside those of the golden cases and one of each architecture."""

Described = tuple[Mapping[str, Any], Sequence[tuple[str, str, list[int]]]]


def main() -> None:
    """Ask llama.cpp about every model, and write what it answers beside this script."""
    library, measure, shared = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    asked = SETTINGS
    if library != "Vulkan":
        asked = SETTINGS | {name: one | {"context": 8192} for name, one in MORE.items()}
    is_metal = library == "Metal"
    families = json.loads(gzip.decompress((HERE / "llama_cpp_families.json.gz").read_bytes()))
    path = shared / "reference" / "llama_cpp_golden.json.gz"
    golden = json.loads(gzip.decompress(path.read_bytes()))["models"]
    both = families["settings"]["4 layers on two GPUs"] | {"gpu_layers": 999}
    groups: dict[str, tuple[dict[str, Described], dict[str, dict[str, Any]]]] = {
        "golden": (_described(golden), asked),
        "made": (dict(_made(shared / "tools" / "make_models.py")), asked),
        "families": (
            _described(families["models"]), families["settings"] | {"two GPUs": both}
        ),
    }  # fmt: skip
    found: dict[str, Any] = {
        "about": "[n_ctx, n_ctx_seq, buffer -> [weights, cache and state, compute]], or null",
        "settings": {},
        "cases": {},
    }
    for group, (models, settings) in groups.items():
        found["settings"][group] = {
            name: USUAL | one
            for name, one in settings.items()
            if not is_metal or USUAL | one == USUAL | one | WHOLE
        }
        simulated = False if is_metal else None
        found["cases"][group] = _measured(
            measure, _small(models) if is_metal else models, found["settings"][group], simulated
        )
    found["cases"]["drawn"] = _drawn_and_measured(measure, _to_draw(groups, library), is_metal)
    text = json.dumps(found, separators=(",", ":")).encode()
    (HERE / f"llama_cpp_{library.lower()}.json.gz").write_bytes(gzip.compress(text, mtime=0))


def _to_draw(groups: Mapping[str, Any], library: str) -> dict[str, Described]:
    """Return the models that settings are drawn for."""
    models = {name: one for of_group, _ in groups.values() for name, one in of_group.items()}
    return (models if library == "CUDA" else _small(models)) | gemma3n()


def _small(models: Mapping[str, Described]) -> dict[str, Described]:
    return {name: one for name, one in models.items() if _size(one) <= MOST_BYTES}


def _size(described: Described) -> int:
    return sum(
        TENSOR_TYPES[kind].nbytes_of((*reversed(dims),)) or 0 for _, kind, dims in described[1]
    )


def _described(models: Mapping[str, Any]) -> dict[str, Described]:
    return {name: (one["metadata"], one["tensors"]) for name, one in models.items()}


def _made(tool: Path) -> Iterator[tuple[str, Described]]:
    spec = importlib.util.spec_from_file_location("make_models", tool)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for name in NAMES:
        architecture, keys, tensors, tokens = module.M[name]
        metadata = {f"{architecture}.{key}": value for key, value in keys.items()}
        metadata |= {
            "general.architecture": architecture,
            "tokenizer.ggml.tokens": {"count": tokens},
        }
        yield name, (metadata, [(one, kind, dims) for one, dims, kind in tensors])


def _measured(
    measure: Path,
    models: Mapping[str, Described],
    settings: Mapping[str, Mapping[str, Any]],
    simulated: bool | None,
) -> dict[str, dict[str, Any]]:
    """Return for each model and settings what llama.cpp says."""
    found: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.gguf"
        for model, described in models.items():
            write_header(path, *described)
            found[model] = {}
            for name, values in settings.items():
                if values["devices"]:
                    found[model][name] = _answer(measure, path, values, simulated=simulated)
    return found


def gemma3n() -> dict[str, Described]:
    """Return Gemma 3n of both sizes, which llama.cpp does not write by itself."""
    return {"gemma3n-e2b": _gemma3n(30, 8192), "gemma3n-e4b": _gemma3n(35, 16384)}


def _gemma3n(layers: int, wide: int) -> Described:
    embedding, heads, kv_heads, length, vocabulary, own = 2048, 8, 2, 256, 262400, 256
    metadata = {
        "block_count": layers, "context_length": 32768, "embedding_length": embedding,
        "feed_forward_length": wide, "attention.head_count": heads,
        "attention.head_count_kv": kv_heads, "attention.key_length": length,
        "attention.value_length": length, "attention.layer_norm_rms_epsilon": 1e-6,
        "attention.sliding_window": 512, "attention.shared_kv_layers": layers - 20,
        "attention.sliding_window_pattern": [(i + 1) % 5 > 0 for i in range(layers)],
        "rope.freq_base": 1e6, "altup.active_idx": 0, "altup.num_inputs": 4,
        "embedding_length_per_layer_input": own,
    }  # fmt: skip
    tensors = [
        ("token_embd", "Q6_K", [embedding, vocabulary]), ("output_norm", "F32", [embedding]),
        ("altup_proj", "F16", [embedding, embedding, 3]),
        ("altup_unembd_proj", "F16", [embedding, embedding, 3]),
        ("per_layer_token_embd", "Q5_K", [own * layers, vocabulary]),
        ("per_layer_model_proj", "F16", [embedding, own * layers]),
        ("per_layer_proj_norm", "F32", [own]),
    ]  # fmt: skip
    of_block = [
        *((name, "F32", [embedding]) for name in (
            "attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm", "post_norm",
            "altup_correct_scale", "altup_router_norm", "laurel_post_norm",
        )),
        ("attn_q", "Q4_K", [embedding, heads * length]), ("attn_q_norm", "F32", [length]),
        ("attn_k", "Q4_K", [embedding, kv_heads * length]), ("attn_k_norm", "F32", [length]),
        ("attn_v", "Q6_K", [embedding, kv_heads * length]),
        ("attn_output", "Q4_K", [heads * length, embedding]),
        ("ffn_gate", "Q4_K", [embedding, wide]), ("ffn_up", "Q4_K", [embedding, wide]),
        ("ffn_down", "Q4_K", [wide, embedding]), ("inp_gate", "F16", [embedding, own]),
        ("proj", "F16", [own, embedding]), ("altup_correct_coef", "F32", [4, 4]),
        ("altup_predict_coef", "F32", [4, 16]), ("altup_router", "F16", [embedding, 4]),
        ("laurel_l", "F16", [embedding, 64]), ("laurel_r", "F16", [64, embedding]),
    ]  # fmt: skip
    tensors += [
        (f"blk.{i}.{name}", kind, dims) for i in range(layers) for name, kind, dims in of_block
    ]
    return (
        {f"gemma3n.{key}": value for key, value in metadata.items()}
        | {"general.architecture": "gemma3n", "tokenizer.ggml.tokens": {"count": vocabulary}},
        [(f"{name}.weight", kind, dims) for name, kind, dims in tensors],
    )


def _drawn_and_measured(
    measure: Path, models: Mapping[str, Described], is_whole: bool
) -> dict[str, list[Any]]:
    """Return for each model settings with one, two and three GPUs, and what llama.cpp says.

    Args:
        is_whole: Whether models lie on one GPU as a whole.
    """
    found: dict[str, list[Any]] = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.gguf"
        for model, described in models.items():
            write_header(path, *described)
            chance = random.Random(model)
            drawn = [_drawn(chance, 1 if is_whole else devices) for devices in (1, 2, 3)]
            if is_whole:
                drawn = [one | WHOLE for one in drawn]
            found[model] = [
                [values, _answer(measure, path, USUAL | values, simulated=False)]
                for values in drawn
            ]
    return found


def _drawn(chance: random.Random, devices: int) -> dict[str, Any]:
    """Return settings that differ from the usual ones."""
    kind = chance.choice(["f16", "f16", "f16", "q8_0", "q4_0", "bf16", "f32"])
    ubatch = chance.choice([32, 128, 256, 512, 512, 512, 1024, 2048])
    drawn = {
        "context": chance.choice([512, 1000, 4096, 8192, 20000, 32768]),
        "parallel": chance.choice([1, 1, 1, 2, 3, 4]),
        "ubatch": ubatch,
        "batch": max(ubatch, chance.choice([512, 2048, 2048])),
        "gpu_layers": chance.choice([999, 999, 999, 1, 3, 5, 12]),
        "devices": devices,
        "flash_attention": chance.choice([None, None, True, False]),
        "kv_unified": chance.random() < 0.4,
        "type_k": kind,
        "type_v": chance.choice([kind, kind, kind, "f16"]),
        "offload_kv": chance.random() > 0.2,
        "swa_full": chance.random() < 0.15,
        "all_logits": chance.random() < 0.1,
        "cpu_moe_layers": chance.choice([0, 0, 0, 0, 2, 30]),
    }
    if devices > 1 and chance.random() < 0.3:
        drawn["tensor_split"] = [chance.randint(1, 4) for _ in range(devices)]
    return {name: value for name, value in drawn.items() if value != USUAL.get(name)}


def _answer(
    measure: Path, path: Path, values: Mapping[str, Any], *, simulated: bool | None = None
) -> Any:
    flash = {None: "auto", True: "on", False: "off"}[values["flash_attention"]]
    words = [path, *(values[name] for name in tuple(USUAL)[:6]), flash]
    words += [int(values["kv_unified"]), values["type_k"], values["type_v"]]
    words += [int(values[name]) for name in ("offload_kv", "swa_full", "all_logits")]
    count = values["devices"]
    words += [values["cpu_moe_layers"], int(count < 2 if simulated is None else simulated)]
    words.append(",".join(map(str, values.get("tensor_split", ()))) or "-")
    devices = ",".join("0" * count)
    done = subprocess.run(
        [measure],
        input=" ".join(map(str, words)) + "\n",
        capture_output=True,
        text=True,
        check=False,
        env=os.environ
        | {"GGML_VK_VISIBLE_DEVICES": devices, "VK_STORAGE_RANGE": RANGE}
        | {"GGML_CUDA_DEVICES": str(count)},
    )
    if not done.stdout.startswith("{"):  # it ended itself
        return None
    answer = json.loads(done.stdout)
    if "error" in answer:
        return None
    return [answer["n_ctx"], answer["n_ctx_seq"], answer["memory"]]


# A GGUF file of a header, with a hole for the weights


def write_header(
    path: Path, metadata: Mapping[str, Any], tensors: Sequence[tuple[str, str, list[int]]]
) -> None:
    """Write a file whose weights are a hole, and whose vocabulary is a number."""
    kept = {key: value for key, value in metadata.items() if value != []}
    tokens = kept.pop("tokenizer.ggml.tokens", None)
    kept = {key: value for key, value in kept.items() if not key.startswith("tokenizer.")}
    kept["tokenizer.ggml.model"] = "no_vocab"
    if tokens is not None:
        kept[f"{metadata['general.architecture']}.vocab_size"] = tokens["count"]
    parts = [struct.pack("<4sIQQ", b"GGUF", 3, len(tensors), len(kept))]
    for key, value in kept.items():
        parts += (_text(key), _value(value))
    end = 0
    for name, kind, dims in tensors:
        tensor_type = TENSOR_TYPES[kind]
        place = struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, tensor_type.id, end)
        parts += (_text(name), place)
        end += -(-(tensor_type.nbytes_of(tuple(reversed(dims))) or 0) // 32) * 32
    header = b"".join(parts)
    path.write_bytes(header)
    with path.open("r+b") as file:
        file.truncate(-(-len(header) // 32) * 32 + end)


def _text(text: str) -> bytes:
    return struct.pack("<Q", len(text.encode())) + text.encode()


def _value(value: Any) -> bytes:
    if not isinstance(value, list):
        kind, data = _scalar(value, value)
        return struct.pack("<I", kind) + data
    least = min(value) if isinstance(value[0], int) else value[0]
    pairs = [_scalar(one, least) for one in value]
    return struct.pack("<IIQ", 9, pairs[0][0], len(value)) + b"".join(data for _, data in pairs)


def _scalar(value: Any, least: Any) -> tuple[int, bytes]:
    """Return the type and bytes of a value; `least` of a list says whether it has a sign."""
    match value:
        case bool():
            return 7, struct.pack("<?", value)
        case int():
            return (5, struct.pack("<i", value)) if least < 0 else (4, struct.pack("<I", value))
        case float():
            return 6, struct.pack("<f", value)
    return 8, _text(value)


if __name__ == "__main__":
    main()
