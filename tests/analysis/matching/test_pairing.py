"""Names that are the same, tensors that are cut otherwise, and what is not comparable, with why."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from explorer.analysis.errors.compare import Comparison, total_of
from explorer.analysis.matching import rules as make
from explorer.analysis.matching.pairing import (
    Matching,
    Names,
    base_name,
    base_names,
    is_original,
    match_models,
)
from explorer.formats import Model, open_model
from explorer.formats.facts import describe
from tests.helpers.gguf_writer import STRING, GgufFile, TensorSpec
from tests.helpers.model_pairs import arrays_of, write_gguf, write_safetensors
from tests.helpers.safetensors_writer import tensors_bytes

Array = NDArray[Any]


def _matched(one: Path, two: Path) -> Matching:
    """Match two models, and check that what is matched is equal."""
    with open_model(one) as reference, open_model(two) as candidate:
        found = match_models(reference, candidate)
        for row in Comparison(found.matches).rows():
            assert row.errors is not None, row.error
            assert row.errors.metrics.max_abs_error == 0, row.errors.metrics
    return found


def _pairs(found: Matching) -> list[tuple[str, str]]:
    return [(match.reference.name, match.candidate.name) for match in found.matches]


def _gguf(path: Path, arrays: dict[str, Array], architecture: str = "llama") -> Path:
    return write_gguf(path, architecture, arrays, attention__head_count=2)


def test_the_same_names(tmp_path: Path) -> None:
    arrays = arrays_of({"blk.0.attn_q.weight": (8, 4), "odd name": (3,), "only.weight": (2,)})
    one = _gguf(tmp_path / "one.gguf", arrays)
    arrays["other.weight"] = arrays.pop("only.weight")
    found = _matched(one, _gguf(tmp_path / "two.gguf", arrays, "qwen2"))
    assert _pairs(found) == [("blk.0.attn_q.weight",) * 2, ("odd name",) * 2]
    assert found.unmatched_reference == ("only.weight",)
    assert found.unmatched_candidate == ("other.weight",)
    assert found.not_comparable == ()


@pytest.mark.parametrize("turned", [False, True])
def test_a_model_that_no_rule_knows_keeps_its_names_in_gguf(turned: bool, tmp_path: Path) -> None:
    arrays = arrays_of({"double_blocks.0.img_mlp.0.weight": (8, 4), "stft_conv.weight": (6, 1, 5)})
    paths = [_gguf(tmp_path / "image.gguf", arrays, "flux")]
    arrays["other.weight"] = arrays["stft_conv.weight"]
    paths.append(write_safetensors(tmp_path / "image", arrays))
    found = _matched(*reversed(paths)) if turned else _matched(*paths)
    assert [one for one, _ in _pairs(found)] == list(arrays)[:2]
    unmatched = found.unmatched_reference if turned else found.unmatched_candidate
    assert unmatched == ("other.weight",)


@pytest.mark.parametrize("turned", [False, True])
def test_older_and_newer_files(turned: bool, tmp_path: Path) -> None:
    old = arrays_of(
        {
            **{f"blk.0.ffn_{one}.{e}.weight": (6, 4) for e in range(3) for one in ("gate", "up")},
            **{f"blk.0.attn_{one}.weight": (8 if one == "q" else 4, 4) for one in "qkv"},
            "blk.0.attn_kv_b.weight": (2 * (5 + 3), 7),
            "token_embd.weight": (9, 4),
        }
    )
    kv_b = old["blk.0.attn_kv_b.weight"].reshape(2, 8, 7)
    new = {
        **{
            f"blk.0.ffn_{one}_exps.weight": np.stack(
                [old[f"blk.0.ffn_{one}.{e}.weight"] for e in range(3)]
            )
            for one in ("gate", "up")
        },
        "blk.0.attn_qkv.weight": np.concatenate([old[f"blk.0.attn_{one}.weight"] for one in "qkv"]),
        "blk.0.attn_k_b.weight": kv_b[:, :5].transpose(0, 2, 1),
        "blk.0.attn_v_b.weight": kv_b[:, 5:],
        "token_embd.weight": old["token_embd.weight"],
        "output.weight": old["token_embd.weight"],
    }
    paths = [_gguf(tmp_path / "old.gguf", old), _gguf(tmp_path / "new.gguf", new)]
    found = _matched(*(reversed(paths) if turned else paths))
    assert found.unmatched_reference == found.unmatched_candidate == ()
    assert found.not_comparable == ()
    of_new = [pair[0 if turned else 1] for pair in _pairs(found)]
    # the three projections are cut out of the fused tensor, or it is joined of them
    assert sorted(set(of_new)) == sorted(new)


def test_fused_experts_of_gguf(tmp_path: Path) -> None:
    split = arrays_of({f"blk.0.ffn_{one}_exps.weight": (3, 6, 4) for one in ("gate", "up")})
    fused = {"blk.0.ffn_gate_up_exps.weight": np.concatenate(list(split.values()), axis=1)}
    found = _matched(_gguf(tmp_path / "one.gguf", fused), _gguf(tmp_path / "two.gguf", split))
    assert len(found.matches) == 2
    assert found.unmatched_reference == found.unmatched_candidate == ()


@pytest.mark.parametrize("turned", [False, True])
def test_releases_of_hugging_face(turned: bool, tmp_path: Path) -> None:
    start = "model.layers.0."
    one = arrays_of(
        {
            **{f"{start}self_attn.{p}_proj.weight": (8 if p == "q" else 4, 4) for p in "qkv"},
            f"{start}mlp.gate_proj.weight": (6, 4),
            f"{start}mlp.up_proj.weight": (6, 4),
            **{
                f"model.layers.1.mlp.experts.{e}.{p}_proj.weight": (5, 4)
                for e in range(2)
                for p in ("gate", "up", "down")
            },
            "model.norm.weight": (4,),
        }
    )
    parts = [one[f"{start}self_attn.{p}_proj.weight"] for p in "qkv"]
    down = [one[f"model.layers.1.mlp.experts.{e}.down_proj.weight"] for e in range(2)]
    both = [
        [one[f"model.layers.1.mlp.experts.{e}.{p}_proj.weight"] for p in ("gate", "up")]
        for e in range(2)
    ]
    two = {
        "layers.0.self_attn.qkv_proj.weight": np.concatenate(parts),
        "layers.0.mlp.gate_up_proj.weight": np.concatenate(
            [one[f"{start}mlp.{p}_proj.weight"] for p in ("gate", "up")]
        ),
        "layers.1.mlp.switch_mlp.down_proj.weight": np.stack(down),
        "layers.1.mlp.experts.gate_up_proj": np.stack([np.concatenate(b) for b in both]),
        "norm.weight": one["model.norm.weight"],
    }
    two = {f"model.language_model.{name}": array for name, array in two.items()}
    paths = [write_safetensors(tmp_path / "1", one), write_safetensors(tmp_path / "2", two)]
    found = _matched(*(reversed(paths) if turned else paths))
    assert found.unmatched_reference == found.unmatched_candidate == ()
    assert found.not_comparable == ()


def test_shapes_that_differ_are_reported(tmp_path: Path) -> None:
    one = arrays_of({"blk.0.ffn_up.weight": (8, 4), "blk.0.ffn_norm.weight": (4,)})
    two = arrays_of({"blk.0.ffn_up.weight": (6, 4), "blk.0.ffn_norm.weight": (1, 4)})
    two["blk.0.ffn_norm.weight"][:] = one["blk.0.ffn_norm.weight"]
    found = _matched(_gguf(tmp_path / "1.gguf", one), _gguf(tmp_path / "2.gguf", two))
    assert _pairs(found) == [("blk.0.ffn_norm.weight",) * 2]
    (reported,) = found.not_comparable
    assert reported.reference_name == reported.candidate_name == "blk.0.ffn_up.weight"
    assert reported.reason == "shapes differ: [8, 4] and [6, 4]"


def test_heads_that_are_not_known(tmp_path: Path) -> None:
    arrays = arrays_of({"model.layers.0.self_attn.q_proj.weight": (8, 4)})
    array = arrays["model.layers.0.self_attn.q_proj.weight"]
    one = write_safetensors(tmp_path / "hf", arrays)
    two = write_gguf(tmp_path / "x.gguf", "llama", {"blk.0.attn_q.weight": array})
    found = _matched(one, two)
    assert not found.matches
    assert "the number of heads is not known" in found.not_comparable[0].reason
    assert found.unmatched_reference == found.unmatched_candidate == ()
    wrong = write_gguf(
        tmp_path / "y.gguf", "llama", {"blk.0.attn_q.weight": array}, attention__head_count=3
    )
    assert "not those of 3 heads" in _matched(wrong, one).not_comparable[0].reason


def test_parts_that_do_not_fit_are_reported(tmp_path: Path) -> None:
    kv_b = arrays_of({"model.layers.0.self_attn.kv_b_proj.weight": (16, 7)})
    one = write_safetensors(tmp_path / "hf", kv_b)
    made = arrays_of({"blk.0.attn_k_b.weight": (3, 7, 5), "blk.0.attn_v_b.weight": (2, 90, 7)})
    found = _matched(one, _gguf(tmp_path / "x.gguf", made, "deepseek2"))
    assert [pair.candidate_name for pair in found.not_comparable] == list(made)
    assert all("shapes do not fit" in pair.reason for pair in found.not_comparable)


def test_square_experts_could_lie_either_way(tmp_path: Path) -> None:
    one = arrays_of({"model.layers.0.mlp.experts.gate_up_proj": (2, 8, 8)})
    two = arrays_of({"blk.0.ffn_up_exps.weight": (2, 4, 8)})
    found = _matched(write_safetensors(tmp_path / "1", one), _gguf(tmp_path / "2.gguf", two))
    assert "its layout is ambiguous" in found.not_comparable[0].reason


def test_factors_in_other_tensors(tmp_path: Path) -> None:
    """NVFP4's second factor in GGUF, block scales of FP8 in safetensors."""
    specs = [
        TensorSpec("blk.0.ffn_up.weight", (64, 1), 40, bytes(36)),
        TensorSpec("blk.0.ffn_up.scale", (1,), 0, bytes(4)),
        TensorSpec("blk.0.ffn_down.weight", (64, 1), 40, bytes(36)),
    ]
    file = GgufFile(keys=[("general.architecture", STRING, "llama")], tensors=specs)
    path = file.write(tmp_path / "nvfp4.gguf")
    found = _matched(path, path)
    assert [name for name, _ in _pairs(found)] == ["blk.0.ffn_up.scale", "blk.0.ffn_down.weight"]
    assert "'blk.0.ffn_up.scale' are not applied" in found.not_comparable[0].reason
    name = "model.layers.0.mlp.up_proj.weight"
    floats = tmp_path / "fp8.safetensors"
    other = _gguf(tmp_path / "f32.gguf", arrays_of({"blk.0.ffn_up.weight": (1, 64)}))
    for scales, count in (([3, 7], 0), ([1, 1], 1)):  # the first fit no weight, and stay apart
        parts = [(name, "F8_E4M3", [1, 64]), (f"{name}_scale_inv", "F32", scales)]
        floats.write_bytes(tensors_bytes(parts))
        with open_model(other) as reference, open_model(floats) as candidate:
            found = match_models(reference, candidate)
        assert len(found.matches) == count
        reasons = [pair.reason for pair in found.not_comparable]
        assert count or f"'{name}_scale_inv' are not applied" in reasons[0]


def test_what_only_one_side_can_have(tmp_path: Path) -> None:
    one = arrays_of(
        {"model.layers.0.self_attn.rotary_emb.inv_freq": (4,), "lm_head.weight": (3, 4)}
    )
    two = arrays_of({"rope_freqs.weight": (4,), "blk.0.new_thing.weight": (4,)})
    found = _matched(write_safetensors(tmp_path / "hf", one), _gguf(tmp_path / "x.gguf", two))
    assert found.unmatched_reference == ("lm_head.weight",)
    assert found.unmatched_candidate == ("blk.0.new_thing.weight",)
    reasons = {pair.reference_name or pair.candidate_name: pair for pair in found.not_comparable}
    assert "leave it out" in reasons["model.layers.0.self_attn.rotary_emb.inv_freq"].reason
    assert reasons["rope_freqs.weight"].reference_name is None
    assert "computes it" in reasons["rope_freqs.weight"].reason


def test_quantized_on_one_side_only(tmp_path: Path) -> None:
    arrays = arrays_of({"blk.0.ffn_up.weight": (8, 256)})
    one = _gguf(tmp_path / "f32.gguf", arrays)
    two = write_gguf(tmp_path / "q.gguf", "llama", arrays, {"blk.0.ffn_up.weight": "Q4_K"})
    with open_model(one) as reference, open_model(two) as candidate:
        comparison = Comparison(match_models(reference, candidate).matches)
        (row,) = comparison.rows()
    assert row.errors is not None
    assert 0.01 < row.errors.metrics.relative_rmse < 0.12
    assert (row.pair.reference_type, row.pair.candidate_type) == ("F32", "Q4_K")
    assert row.errors.saturated is not None
    assert 0 < row.errors.saturated < 0.3
    assert total_of([row]).bits_per_weight == 4.5
    assert total_of([row]).metrics.rmse == row.errors.metrics.rmse


@given(st.text(max_size=40))
def test_any_name_has_a_role(name: str) -> None:
    names = Names.__new__(Names)
    for gguf in (False, True):
        names.gguf = gguf
        for text in (name, f"blk.3.{name}", f"model.layers.12.{name}.weight", name * 40):
            role = names.role(names.plain(text))
            assert role.suffix in {"weight", "bias"}


_WHOLE = (make.same, make.norm, make.vocabulary, make.query, make.key, make.transposed)


@pytest.mark.parametrize(
    "architecture",
    ["LLAMA", "QWEN2", "QWEN3MOE", "GEMMA2", "GEMMA3", "PHI2", "PHI3", "DEEPSEEK2", "GPT_OSS"],
)
def test_names_are_those_of_the_converter(architecture: str) -> None:
    """What a rule takes as it is has the same name in the gguf package's table."""
    gguf = pytest.importorskip("gguf")
    table = gguf.get_tensor_name_map(gguf.MODEL_ARCH[architecture], 10)
    known = 0
    for role, alternatives in make.HUGGING_FACE.items():
        for rule in alternatives:
            if len(rule.sources) != 1 or "{e}" in rule.sources[0] or rule.make not in _WHOLE:
                continue
            name = rule.sources[0].replace("{i}", "7").removesuffix(".{s}")
            for found in (table.get_name(start + name) for start in ("model.", "")):
                if found is None:
                    continue
                known += 1
                wanted = f"blk.7.{role}" if name.startswith(("layers.", "h.")) else role
                if name == "layers.7.post_attention_layernorm":  # which one depends on the others
                    assert found in {"blk.7.ffn_norm", "blk.7.post_attention_norm"}
                else:
                    assert found == wanted, name
    assert known > 40


def test_an_output_is_not_taken_for_the_embedding_unless_it_is(tmp_path: Path) -> None:
    """One shard of several has no lm_head either."""
    one = arrays_of({"model.embed_tokens.weight": (5, 4)})
    array = one["model.embed_tokens.weight"]
    two = _gguf(tmp_path / "x.gguf", {"token_embd.weight": array, "output.weight": array})
    shard = _matched(write_safetensors(tmp_path / "shard", one), two)
    assert shard.unmatched_candidate == ("output.weight",)
    tied = _matched(write_safetensors(tmp_path / "tied", one, tie_word_embeddings=True), two)
    assert tied.unmatched_candidate == ()
    assert "is the output too" in tied.matches[1].reference.notes[0]


@pytest.mark.parametrize(
    ("name", "base"),
    [
        ("gemma-3-270m-it-Q4_K_M.gguf", "gemma3270mit"),
        ("Gemma 3 270m It", "gemma3270mit"),
        ("gemma3:270m-it-fp16", "gemma3270mit"),
        ("Qwen2.5-7B-Instruct-GPTQ-Int4", "qwen257binstruct"),
        ("Llama-3.2-1B-Instruct-UD-IQ2_XXS.gguf", "llama321binstruct"),
        ("DeepSeek-R1-Q4_K_M-00001-of-00009.gguf", "deepseekr1"),
        ("gpt-oss-20b-mxfp4.gguf", "gptoss20b"),
        ("Meta-Llama-3.1-8B-Instruct-quantized.w4a16", "metallama318binstruct"),
        ("Qwen3-0.6B-4bit", "qwen306b"),
        ("gemma-3n-E4B", "gemma3ne4b"),  # its size, not its type
        ("Llama-Q2-thing", "llamaq2thing"),
        ("model.safetensors", ""),
        ("model-00001-of-00002.safetensors", ""),
        ("Q4_K_M.gguf", ""),
        ("ggml-model-q4_0.gguf", ""),
        ("unsloth.Q4_K_M.gguf", ""),
        ("", ""),
        ("-" * 100_000, ""),
    ],
)
def test_a_name_is_told_from_how_weights_are_stored(name: str, base: str) -> None:
    assert base_name(name) == base


def test_a_place_says_what_a_model_is_called() -> None:
    hub = Path("/hub/models--google--gemma-3-270m-it/snapshots/0123/model.safetensors")
    assert base_names(hub, hub.name) == {"gemma3270mit"}
    folder = Path("/models/gemma-3-270m-it/model.safetensors.index.json")
    assert base_names(folder, folder.name) == {"gemma3270mit"}
    assert base_names(Path("/models/tiny-chat/ggml-model-f16.gguf"), "ggml-model-f16.gguf") == {
        "tinychat"
    }
    assert base_names(Path("/blobs/manifests/x/270m"), "gemma3:270m-q8_0") == {"gemma3270m"}


def _original(
    tmp_path: Path, name: str, *, types: str = "", layers: int = 1, stated: bool = True
) -> Model:
    shapes = {"token_embd.weight": (64, 256), "blk.0.ffn_up.weight": (128, 256)}
    kinds = dict.fromkeys(shapes, types) if types else {}
    shape = {"block_count": layers, "embedding_length": 256} if stated else {}
    return open_model(write_gguf(tmp_path / name, "llama", arrays_of(shapes), kinds, **shape))


@pytest.mark.parametrize(
    ("name", "types", "layers", "is_it"),
    [
        ("tiny-chat-F32.gguf", "", 1, True),
        ("Tiny_Chat.gguf", "", 1, True),
        ("tiny-base-F32.gguf", "", 1, False),  # another model of the same shape
        ("tiny-chat-F32.gguf", "", 2, False),  # of another shape
        ("tiny-chat-Q8_0.gguf", "Q8_0", 1, False),  # quantized itself
    ],
)
def test_an_original_has_the_name_and_the_shape_and_is_not_quantized(
    tmp_path: Path, name: str, types: str, layers: int, is_it: bool
) -> None:
    with _original(tmp_path, "tiny-chat-Q4_K_M.gguf", types="Q4_K") as model:
        own = base_names(Path("tiny-chat-Q4_K_M.gguf"), "tiny-chat-Q4_K_M.gguf")
        with _original(tmp_path, name, types=types, layers=layers) as other:
            facts, names = describe(model), base_names(Path(name), name)
            assert is_original(describe(other), names, facts, own) is is_it
            assert not is_original(facts, own, describe(other), names)


def test_files_that_state_no_shape_are_told_by_name_and_size(tmp_path: Path) -> None:
    name, other_name = "tiny-chat-Q4_K.gguf", "tiny-chat-F32.gguf"
    with (
        _original(tmp_path, name, types="Q4_K", stated=False) as model,
        _original(tmp_path, other_name, stated=False) as other,
    ):
        facts, names = describe(model), base_names(Path(other_name), other_name)
        assert facts.layers is None
        assert is_original(describe(other), names, facts, base_names(Path(name), name))


def test_a_folder_of_hugging_face_is_the_original_of_a_gguf_file(tmp_path: Path) -> None:
    shapes = {
        "model.embed_tokens.weight": (64, 256),
        "model.layers.0.mlp.up_proj.weight": (128, 256),
    }
    folder = write_safetensors(
        tmp_path / "models--org--Tiny-Chat" / "snapshots" / "0123",
        arrays_of(shapes),
        model_type="llama",
        num_hidden_layers=1,
        hidden_size=256,
    )
    name = "tiny-chat-Q4_K_M.gguf"
    with _original(tmp_path, name, types="Q4_K") as model, open_model(folder) as other:
        own, facts, found = base_names(Path(name), name), describe(model), describe(other)
        assert is_original(found, base_names(folder, "org/Tiny-Chat"), facts, own)
        assert is_original(found, base_names(folder, folder.name), facts, own)
        assert not is_original(found, base_names(Path("other-chat"), "other-chat"), facts, own)
