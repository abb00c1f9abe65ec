"""Models whose conversion is known, in both formats: every tensor is found, and without any error.

The transforms are written here a second time, as llama.cpp's convert_hf_to_gguf.py makes them of
arrays; the program makes views.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from explorer.analysis.errors.compare import Comparison
from explorer.analysis.matching.pairing import Matching, match_models
from explorer.formats import open_model
from tests.formats.test_hf_rules import Part, write_folder
from tests.helpers.model_pairs import arrays_of, write_gguf, write_safetensors
from tests.quantization.test_hf_encode import PACKERS, Made

Array = NDArray[Any]
Shapes = dict[str, tuple[int, ...]]

_HEADS, _KV_HEADS, _SIZE = 4, 2, 8
_WIDTH, _INNER, _WORDS, _LAYERS = 24, 40, 50, 2
_EXPERTS = 3
_NUMBERS = {"attention__head_count": _HEADS, "attention__head_count_kv": _KV_HEADS}


def _permuted(weights: Array, heads: int) -> Array:
    """Do what `LlamaModel.permute` does."""
    return (
        weights.reshape(heads, 2, weights.shape[0] // heads // 2, *weights.shape[1:])
        .swapaxes(1, 2)
        .reshape(weights.shape)
    )


def _llama_shapes(bias: bool = False, norms: bool = False) -> Shapes:
    shapes: Shapes = {
        "model.embed_tokens.weight": (_WORDS, _WIDTH),
        "model.norm.weight": (_WIDTH,),
        "lm_head.weight": (_WORDS, _WIDTH),
    }
    for layer in range(_LAYERS):
        start = f"model.layers.{layer}."
        for name, rows in (("q", _HEADS), ("k", _KV_HEADS), ("v", _KV_HEADS)):
            shapes[f"{start}self_attn.{name}_proj.weight"] = (rows * _SIZE, _WIDTH)
            if bias:
                shapes[f"{start}self_attn.{name}_proj.bias"] = (rows * _SIZE,)
        if norms:
            shapes |= {f"{start}self_attn.{name}_norm.weight": (_SIZE,) for name in "qk"}
        shapes[f"{start}self_attn.o_proj.weight"] = (_WIDTH, _HEADS * _SIZE)
        shapes[f"{start}mlp.gate_proj.weight"] = (_INNER, _WIDTH)
        shapes[f"{start}mlp.up_proj.weight"] = (_INNER, _WIDTH)
        shapes[f"{start}mlp.down_proj.weight"] = (_WIDTH, _INNER)
        shapes[f"{start}input_layernorm.weight"] = (_WIDTH,)
        shapes[f"{start}post_attention_layernorm.weight"] = (_WIDTH,)
    return shapes


_NAMES = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
}


def _gguf_name(name: str, names: dict[str, str]) -> str:
    module, _, suffix = name.rpartition(".")
    if module.startswith("model.layers."):
        _, _, layer, rest = module.split(".", 3)
        return f"blk.{layer}.{names[rest]}.{suffix}"
    return f"{names[module]}.{suffix}"


def _convert(
    arrays: dict[str, Array], change: Callable[[str, Array], Array], **names: str
) -> dict[str, Array]:
    table = _NAMES | {key.replace("__", "."): value for key, value in names.items()}
    return {_gguf_name(key, table): change(key, array) for key, array in arrays.items()}


def _check(
    folder: Path,
    architecture: str,
    hugging_face: dict[str, Array],
    gguf: dict[str, Array],
    left: tuple[str, ...] = (),
    **config: Any,
) -> Matching:
    """Compare both ways: every pair is without error, and nothing but `left` is left over."""
    folder.mkdir(exist_ok=True)
    one = write_safetensors(folder / "hf", hugging_face, **config)
    two = write_gguf(folder / "model.gguf", architecture, gguf, **_NUMBERS)
    with open_model(one) as reference, open_model(two) as candidate:
        found = match_models(reference, candidate)
        back = match_models(candidate, reference)
        for matching, direction in ((found, 1), (back, -1)):
            for row in Comparison(matching.matches).rows():
                assert row.errors is not None, row.error
                assert row.errors.metrics.max_abs_error == 0, row.errors.metrics
            unmatched = (matching.unmatched_reference, matching.unmatched_candidate)[::direction]
            assert unmatched == (left, ())
            assert not matching.not_comparable
            assert len(matching.matches) == len(gguf)
        names = [match.candidate.name for match in found.matches]
        assert names == list(gguf)
    return found


def test_llama(tmp_path: Path) -> None:
    arrays = arrays_of(_llama_shapes(bias=True))

    def change(name: str, array: Array) -> Array:
        if "q_proj" in name:
            return _permuted(array, _HEADS)
        return _permuted(array, _KV_HEADS) if "k_proj" in name else array

    found = _check(tmp_path, "llama", arrays, _convert(arrays, change))
    notes = {match.candidate.name: match.reference.notes for match in found.matches}
    assert "permuted" in notes["blk.1.attn_k.weight"][0]
    assert notes["blk.1.attn_v.weight"] == ()


@pytest.mark.parametrize(
    "method",
    [
        *("w4a16/32", "w4a16/channel", "w4a16/32/asym", "w8a8", "nvfp4a16", "mxfp4a16"),
        *("nf4", "nf4/double", "llm.int8", "fp8/tensor", "fp8/32x32", "hqq4/32", "qint8", "bitnet"),
    ],
)
def test_quantized_models_of_hugging_face_against_gguf(tmp_path: Path, method: str) -> None:
    """Rounded weights in GGUF, rows of q and k in its order, are those of the folder to the bit."""
    width = 64
    stem = "model.layers.0."
    arrays = arrays_of(
        {
            f"{stem}self_attn.q_proj.weight": (_HEADS * 16, width),
            f"{stem}self_attn.k_proj.weight": (_KV_HEADS * 16, width),
            f"{stem}self_attn.v_proj.weight": (_KV_HEADS * 16, width),
            f"{stem}mlp.down_proj.weight": (width, 96),
        }
    )
    norm = {f"{stem}input_layernorm.weight": np.ones(width, np.float32)}
    parts: dict[str, Part] = {name: ("F32", array) for name, array in norm.items()}
    rounded: dict[str, Array] = {}
    said: dict[str, Any] = {}
    for name, array in arrays.items():
        made = Made(method, array)
        own, said = PACKERS[made.scheme.method](made)
        parts |= {f"{name.removesuffix('.weight')}.{role}": part for role, part in own.items()}
        rounded[name] = made.rounded

    def change(name: str, array: Array) -> Array:
        if "q_proj" in name:
            return _permuted(array, _HEADS)
        return _permuted(array, _KV_HEADS) if "k_proj" in name else array

    one = write_folder(tmp_path / "hf", parts, said)
    gguf = _convert(rounded | norm, change)
    two = write_gguf(tmp_path / "model.gguf", "llama", gguf, **_NUMBERS)
    with open_model(one) as reference, open_model(two) as candidate:
        for matching in (match_models(reference, candidate), match_models(candidate, reference)):
            assert not matching.not_comparable
            assert matching.unmatched_reference == matching.unmatched_candidate == ()
            assert len(matching.matches) == len(gguf)
            for row in Comparison(matching.matches).rows():
                assert row.errors is not None, row.error
                assert row.errors.metrics.max_abs_error == 0, row.errors.metrics


@pytest.mark.parametrize("architecture", ["qwen2", "qwen3"])
def test_qwen(architecture: str, tmp_path: Path) -> None:
    arrays = arrays_of(_llama_shapes(bias=architecture == "qwen2", norms=architecture == "qwen3"))
    _check(tmp_path, architecture, arrays, _convert(arrays, lambda _name, array: array))


def test_gemma(tmp_path: Path) -> None:
    shapes = _llama_shapes()
    del shapes["lm_head.weight"]
    arrays = arrays_of(shapes)
    one = np.float32(1)
    made = _convert(arrays, lambda name, array: array + one if "norm" in name else array)
    found = _check(tmp_path, "gemma", arrays, made)
    assert sum("1 is added" in str(match.reference.notes) for match in found.matches) == 5


@pytest.mark.parametrize("architecture", ["gemma2", "gemma3"])
def test_gemma_2_and_3(architecture: str, tmp_path: Path) -> None:
    shapes = _llama_shapes(norms=architecture == "gemma3")
    del shapes["lm_head.weight"]
    for layer in range(_LAYERS):
        shapes[f"model.layers.{layer}.pre_feedforward_layernorm.weight"] = (_WIDTH,)
        shapes[f"model.layers.{layer}.post_feedforward_layernorm.weight"] = (_WIDTH,)
    arrays = arrays_of(shapes)
    one = np.float32(1)
    made = _convert(
        arrays,
        lambda name, array: array + one if "norm" in name else array,
        post_attention_layernorm="post_attention_norm",
        pre_feedforward_layernorm="ffn_norm",
        post_feedforward_layernorm="post_ffw_norm",
    )
    made["token_embd.weight"] = made["token_embd.weight"][: _WORDS - 7]  # tokens of pictures
    wrapped = {name.replace("model.", "language_model.model.", 1): a for name, a in arrays.items()}
    wrapped["vision_tower.norm.weight"] = np.ones(3, np.float32)
    found = _check(tmp_path, architecture, wrapped, made, left=("vision_tower.norm.weight",))
    notes = {match.candidate.name: match.reference.notes for match in found.matches}
    assert "first 43 rows of 50" in notes["token_embd.weight"][0]


def test_phi_3(tmp_path: Path) -> None:
    shapes = {
        name: shape
        for name, shape in _llama_shapes().items()
        if not any(part in name for part in ("q_proj", "k_proj", "v_proj", "gate_", "up_"))
    }
    for layer in range(_LAYERS):
        start = f"model.layers.{layer}."
        shapes[f"{start}self_attn.qkv_proj.weight"] = (8 * _SIZE, _WIDTH)
        shapes[f"{start}mlp.gate_up_proj.weight"] = (2 * _INNER, _WIDTH)
    arrays = arrays_of(shapes)
    names = {"self_attn__qkv_proj": "attn_qkv", "mlp__gate_up_proj": "ffn_up"}
    _check(tmp_path, "phi3", arrays, _convert(arrays, lambda _name, array: array, **names))


def test_fused_gates_of_hugging_face(tmp_path: Path) -> None:
    arrays = arrays_of({"model.layers.0.mlp.gate_up_proj.weight": (2 * _INNER, _WIDTH)})
    (both,) = arrays.values()
    made = {"blk.0.ffn_gate.weight": both[:_INNER], "blk.0.ffn_up.weight": both[_INNER:]}
    _check(tmp_path, "glm4", arrays, made)


@pytest.mark.parametrize("fused", [False, True])
def test_phi_2(fused: bool, tmp_path: Path) -> None:
    shapes: Shapes = {
        "model.embed_tokens.weight": (_WORDS, _WIDTH),
        "model.final_layernorm.weight": (_WIDTH,),
        "model.final_layernorm.bias": (_WIDTH,),
        "lm_head.weight": (_WORDS, _WIDTH),
        "lm_head.bias": (_WORDS,),
    }
    for name, shape in (
        ("input_layernorm", (_WIDTH,)),
        ("self_attn.dense", (_WIDTH, _WIDTH)),
        ("mlp.fc1", (_INNER, _WIDTH)),
        ("mlp.fc2", (_WIDTH, _INNER)),
        ("self_attn.q_proj", (_WIDTH, _WIDTH)),
        ("self_attn.k_proj", (_WIDTH, _WIDTH)),
        ("self_attn.v_proj", (_WIDTH, _WIDTH)),
    ):
        shapes[f"model.layers.0.{name}.weight"] = shape
        shapes[f"model.layers.0.{name}.bias"] = shape[:1]
    arrays = arrays_of(shapes)
    table = {
        "model__final_layernorm": "output_norm",
        "self_attn__dense": "attn_output",
        "mlp__fc1": "ffn_up",
        "mlp__fc2": "ffn_down",
    }
    made = _convert(arrays, lambda _name, array: array, **table)
    if fused:
        for suffix in ("weight", "bias"):
            parts = [made.pop(f"blk.0.attn_{one}.{suffix}") for one in "qkv"]
            made[f"blk.0.attn_qkv.{suffix}"] = np.concatenate(parts)
    _check(tmp_path, "phi2", arrays, made)


def _expert_names(style: str, projection: str, expert: int) -> str:
    letter = {"gate": "w1", "down": "w2", "up": "w3"}[projection]
    if style == "mixtral":
        return f"model.layers.0.block_sparse_moe.experts.{expert}.{letter}.weight"
    return f"model.layers.0.mlp.experts.{expert}.{projection}_proj.weight"


@pytest.mark.parametrize(
    ("style", "architecture"),
    [("mixtral", "llama"), ("qwen", "qwen3moe"), ("deepseek", "deepseek2")],
)
def test_experts_are_stacked(style: str, architecture: str, tmp_path: Path) -> None:
    router = "block_sparse_moe.gate" if style == "mixtral" else "mlp.gate"
    shapes: Shapes = {f"model.layers.0.{router}.weight": (_EXPERTS, _WIDTH)}
    for projection in ("gate", "up", "down"):
        shape = (_WIDTH, _INNER) if projection == "down" else (_INNER, _WIDTH)
        for expert in range(_EXPERTS):
            shapes[_expert_names(style, projection, expert)] = shape
        if style != "mixtral":
            word = "shared_expert" if style == "qwen" else "shared_experts"
            shapes[f"model.layers.0.mlp.{word}.{projection}_proj.weight"] = shape
    if style == "deepseek":
        shapes["model.layers.0.mlp.gate.e_score_correction_bias"] = (_EXPERTS,)
    arrays = arrays_of(shapes)
    made = {"blk.0.ffn_gate_inp.weight": arrays[f"model.layers.0.{router}.weight"]}
    for projection in ("gate", "up", "down"):
        stack = [arrays[_expert_names(style, projection, one)] for one in range(_EXPERTS)]
        made[f"blk.0.ffn_{projection}_exps.weight"] = np.stack(stack)
        for name in arrays:
            if "shared" in name and f"{projection}_proj" in name:
                made[f"blk.0.ffn_{projection}_shexp.weight"] = arrays[name]
    if style == "deepseek":
        made["blk.0.exp_probs_b.bias"] = arrays["model.layers.0.mlp.gate.e_score_correction_bias"]
    found = _check(tmp_path, architecture, arrays, made)
    stacked = next(m for m in found.matches if m.candidate.name == "blk.0.ffn_up_exps.weight")
    assert stacked.reference.shape == (_EXPERTS, _INNER, _WIDTH)
    assert "(3 tensors)" in stacked.reference.name


@pytest.mark.parametrize("turned", [False, True])
def test_experts_of_newer_releases(turned: bool, tmp_path: Path) -> None:
    fused = arrays_of({"x": (_EXPERTS, 2 * _INNER, _WIDTH)})["x"]
    down = arrays_of({"x": (_EXPERTS, _WIDTH, _INNER)}, 1)["x"]
    start = "model.layers.0.mlp.experts."
    stored = fused.transpose(0, 2, 1) if turned else fused
    stored_down = down.transpose(0, 2, 1) if turned else down
    made = {
        "blk.0.ffn_gate_exps.weight": fused[:, :_INNER],
        "blk.0.ffn_up_exps.weight": fused[:, _INNER:],
        "blk.0.ffn_down_exps.weight": down,
    }
    arrays = {f"{start}gate_up_proj": stored, f"{start}down_proj": stored_down}
    _check(tmp_path, "qwen3moe", arrays, made)
    together = {"blk.0.ffn_gate_up_exps.weight": fused}
    del arrays[f"{start}down_proj"]
    _check(tmp_path / "fused", "qwen3moe", arrays, together)


def test_fused_experts_of_one_tensor_each(tmp_path: Path) -> None:
    arrays = arrays_of(
        {
            _expert_names("qwen", projection, expert): (_INNER, _WIDTH)
            for expert in range(_EXPERTS)
            for projection in ("gate", "up")
        }
    )
    fused = np.concatenate(list(arrays.values())).reshape(_EXPERTS, 2 * _INNER, _WIDTH)
    _check(tmp_path, "qwen3moe", arrays, {"blk.0.ffn_gate_up_exps.weight": fused})


def test_deepseek_attention(tmp_path: Path) -> None:
    heads, rank, nope, size = 3, 16, 6, 5
    start = "model.layers.0.self_attn."
    arrays = arrays_of(
        {
            f"{start}q_a_proj.weight": (12, _WIDTH),
            f"{start}q_a_layernorm.weight": (12,),
            f"{start}q_b_proj.weight": (heads * (nope + 4), 12),
            f"{start}kv_a_proj_with_mqa.weight": (rank + 4, _WIDTH),
            f"{start}kv_a_layernorm.weight": (rank,),
            f"{start}kv_b_proj.weight": (heads * (nope + size), rank),
        }
    )
    plain = dict(
        zip(("q_a", "q_a_norm", "q_b", "kv_a_mqa", "kv_a_norm"), arrays.values(), strict=False)
    )
    made = {f"blk.0.attn_{name}.weight": array for name, array in plain.items()}
    both = arrays[f"{start}kv_b_proj.weight"].reshape(heads, nope + size, rank)
    split = {
        "blk.0.attn_k_b.weight": both[:, :nope].transpose(0, 2, 1),
        "blk.0.attn_v_b.weight": both[:, nope:],
    }
    _check(tmp_path / "new", "deepseek2", arrays, made | split)
    whole = {"blk.0.attn_kv_b.weight": arrays[f"{start}kv_b_proj.weight"]}
    _check(tmp_path / "old", "deepseek2", arrays, made | whole)


def _gpt_oss_arrays() -> tuple[dict[str, Array], dict[str, Array]]:
    rows, columns = 32, 64
    start = "model.layers.0."
    values = arrays_of(
        {"gate_up": (_EXPERTS, 2 * rows, columns), "down": (_EXPERTS, columns, rows)}
    )
    small = arrays_of({"sinks": (4,), "gate_up": (_EXPERTS, 2 * rows), "down": (_EXPERTS, columns)})
    arrays = {
        f"{start}self_attn.sinks": small["sinks"],
        f"{start}post_attention_layernorm.weight": small["sinks"] + 1,
        f"{start}mlp.router.weight": small["gate_up"],
        f"{start}mlp.experts.gate_up_proj": values["gate_up"].transpose(0, 2, 1),
        f"{start}mlp.experts.gate_up_proj_bias": small["gate_up"],
        f"{start}mlp.experts.down_proj": values["down"].transpose(0, 2, 1),
        f"{start}mlp.experts.down_proj_bias": small["down"],
    }
    made = {
        "blk.0.attn_sinks.weight": small["sinks"],
        "blk.0.post_attention_norm.weight": small["sinks"] + 1,
        "blk.0.ffn_gate_inp.weight": small["gate_up"],
        "blk.0.ffn_gate_exps.weight": values["gate_up"][:, ::2],
        "blk.0.ffn_up_exps.weight": values["gate_up"][:, 1::2],
        "blk.0.ffn_down_exps.weight": values["down"],
        "blk.0.ffn_gate_exps.bias": small["gate_up"][:, ::2],
        "blk.0.ffn_up_exps.bias": small["gate_up"][:, 1::2],
        "blk.0.ffn_down_exps.bias": small["down"],
    }
    return arrays, made


def test_gpt_oss(tmp_path: Path) -> None:
    arrays, made = _gpt_oss_arrays()
    _check(tmp_path, "gpt-oss", arrays, made)
    _check(tmp_path / "fused", "gpt-oss", arrays, _with_fused_gates(made))


def _with_fused_gates(made: dict[str, Array]) -> dict[str, Array]:
    """Do what the converter's option --fuse-gate-up-exps does."""
    fused = dict(made)
    for suffix in ("weight", "bias"):
        pair = [fused.pop(f"blk.0.ffn_{one}_exps.{suffix}") for one in ("gate", "up")]
        fused[f"blk.0.ffn_gate_up_exps.{suffix}"] = np.concatenate(pair, axis=1)
    return fused


def test_gpt_oss_as_released(tmp_path: Path) -> None:
    """Codes and scales of MXFP4, low nibble first: the values are written down from the format."""
    random = np.random.default_rng(4)
    levels = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6], np.float32)
    arrays, made = _gpt_oss_arrays()
    for name, shape in (("gate_up", (_EXPERTS, 64, 2, 16)), ("down", (_EXPERTS, 64, 1, 16))):
        blocks = random.integers(0, 256, shape, dtype=np.uint8)
        scales = random.integers(120, 130, shape[:3], dtype=np.uint8)
        codes = np.stack((blocks & 15, blocks >> 4), axis=-1).reshape(*shape[:3], 32)
        values = levels[codes] * np.ldexp(np.float32(1), scales.astype(np.int32) - 127)[..., None]
        values = values.reshape(*shape[:2], -1)
        start = f"model.layers.0.mlp.experts.{name}_proj"
        del arrays[start]
        arrays |= {f"{start}_blocks": blocks, f"{start}_scales": scales}
        if name == "down":
            made["blk.0.ffn_down_exps.weight"] = values
        else:
            made["blk.0.ffn_gate_exps.weight"] = values[:, ::2]
            made["blk.0.ffn_up_exps.weight"] = values[:, 1::2]
    _check(tmp_path, "gpt-oss", arrays, made)
    _check(tmp_path / "fused", "gpt-oss", arrays, _with_fused_gates(made))


def test_gpt_2(tmp_path: Path) -> None:
    """Its weights are those of a convolution: rows and columns exchanged."""
    start = "transformer.h.0."
    arrays = arrays_of(
        {
            "transformer.wte.weight": (_WORDS, _WIDTH),
            "transformer.wpe.weight": (30, _WIDTH),
            "transformer.ln_f.weight": (_WIDTH,),
            f"{start}ln_1.weight": (_WIDTH,),
            f"{start}attn.c_attn.weight": (_WIDTH, 3 * _WIDTH),
            f"{start}attn.c_attn.bias": (3 * _WIDTH,),
            f"{start}attn.c_proj.weight": (_WIDTH, _WIDTH),
            f"{start}ln_2.weight": (_WIDTH,),
            f"{start}mlp.c_fc.weight": (_WIDTH, _INNER),
            f"{start}mlp.c_proj.weight": (_INNER, _WIDTH),
        }
    )
    names = ("token_embd", "position_embd", "output_norm", "blk.0.attn_norm", "blk.0.attn_qkv")
    names += ("blk.0.attn_qkv", "blk.0.attn_output", "blk.0.ffn_norm", "blk.0.ffn_up")
    made = {}
    for name, role in zip(arrays, (*names, "blk.0.ffn_down"), strict=True):
        suffix = name.rpartition(".")[2]
        turned = ".c_" in name and suffix == "weight"
        made[f"{role}.{suffix}"] = arrays[name].T if turned else arrays[name]
    _check(tmp_path, "gpt2", arrays, made)
