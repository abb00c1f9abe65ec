"""Recipes: which type llama-quantize gives each tensor, and how a file agrees with that.

Expectations marked as llama.cpp's are read off its own snapshots (tests/snapshots/*.schema, commits
a45da44f0c2b, a3ff1940e93d and 3948227d2312); the others are worked out by hand from
src/llama-quant.cpp.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.analysis.recipes.fits import (
    agrees,
    compare_with_recipes,
    expected_types,
    type_mix,
    why_no_recipe,
)
from explorer.analysis.recipes.rules import CURRENT, EARLIER, RECIPES, RecipeError, Revision
from explorer.analysis.recipes.tensors import RecipeModel
from explorer.formats import Model, open_model
from explorer.formats.facts import FILE_TYPES
from explorer.present.recipes import layers_text, verdict
from explorer.quantization.types import TENSOR_TYPES
from tests.analysis.recipe_models import Line, dense, header_model

# What Q4_K_M and Q5_K_M give 6 bits in a model of 28 layers (llama.cpp's: qwen3-0.6b.schema).
MORE_OF_28 = {0, 1, 2, 5, 8, 11, 14, 17, 20, 23, 24, 25, 26, 27}


def types_of(
    model: Model, recipe: str, revision: Revision = CURRENT, *, imatrix: bool | None = None
) -> dict[str, str | None]:
    seen = RecipeModel.of(model)
    with_imatrix = seen.imatrix if imatrix is None else imatrix
    found = expected_types(seen, RECIPES[recipe], revision, imatrix=with_imatrix)
    return {tensor.name: kind for tensor, kind in zip(seen.tensors, found, strict=True)}


def of_role(types: dict[str, str | None], role: str, layers: int) -> list[str | None]:
    return [types[f"blk.{layer}.{role}.weight"] for layer in range(layers)]


def qwen3_like(lines: Sequence[Line] | None = None, **keys: Any) -> Model:
    counts = {"attention__head_count": 16, "attention__head_count_kv": 8}
    return header_model(
        dense(28) if lines is None else lines,
        **{"architecture": "qwen3", "block_count": 28, **counts, **keys},
    )


def as_made_by(model: Model, recipe: str, lines: Sequence[Line], **keys: Any) -> Model:
    """Return the model that llama-quantize would write."""
    types = {n: t for n, t in types_of(model, recipe).items() if t is not None}
    return qwen3_like(lines, types=types, **keys)


@pytest.mark.parametrize("recipe", ["Q4_K_M", "Q5_K_M"])
def test_more_bits_for_some_layers_as_llama_cpp_says(recipe: str) -> None:
    types = types_of(qwen3_like(), recipe)
    default = recipe.removesuffix("_M")
    for role in ("attn_v", "ffn_down"):
        found = {i for i, kind in enumerate(of_role(types, role, 28)) if kind == "Q6_K"}
        assert found == MORE_OF_28
    assert types["output.weight"] == "Q6_K"
    assert types["token_embd.weight"] == default
    assert set(of_role(types, "attn_q", 28)) == {default}
    assert types["blk.0.attn_norm.weight"] is None


@pytest.mark.parametrize(
    ("recipe", "role", "expected"),
    [  # llama.cpp's: qwen3-0.6b.schema
        ("Q4_K_S", "attn_v", ["Q5_K"] * 4 + ["Q4_K"] * 24),
        ("Q4_K_S", "ffn_down", ["Q5_K"] * 3 + ["Q4_K"] * 25),
        ("Q3_K_M", "attn_v", ["Q5_K"] * 2 + ["Q4_K"] * 26),
        ("Q3_K_M", "ffn_down", ["Q5_K"] + ["Q4_K"] * 27),
        ("Q3_K_M", "attn_output", ["Q4_K"] * 28),
        ("Q3_K_L", "ffn_down", ["Q5_K"] * 28),
        ("Q3_K_S", "attn_v", ["Q3_K"] * 28),
        ("Q2_K", "attn_v", ["Q3_K"] * 28),
        ("Q2_K", "attn_output", ["Q3_K"] * 28),
        ("Q2_K_S", "attn_v", ["Q2_K"] * 28),
        ("Q2_K_S", "ffn_down", ["Q4_K"] * 3 + ["Q2_K"] * 25),
        ("IQ2_XXS", "attn_v", ["Q2_K"] * 28),
        ("IQ2_XXS", "ffn_down", ["Q2_K"] * 3 + ["IQ2_XXS"] * 25),
        ("IQ3_XS", "attn_q", ["IQ3_XXS"] * 28),
        ("IQ3_XS", "ffn_up", ["IQ3_S"] * 3 + ["IQ3_XXS"] * 21 + ["IQ3_S"] * 4),
        ("IQ3_XXS", "attn_k", ["IQ2_S"] * 28),
        ("IQ3_XXS", "attn_v", ["IQ3_S"] * 28),
        ("IQ3_XXS", "ffn_down", ["Q4_K"] * 3 + ["Q3_K"] * 25),
        ("Q8_0", "attn_v", ["Q8_0"] * 28),
        ("F16", "ffn_up", ["F16"] * 28),
    ],
)
def test_by_role_as_llama_cpp_says(recipe: str, role: str, expected: list[str]) -> None:
    assert of_role(types_of(qwen3_like(), recipe), role, 28) == expected


@pytest.mark.parametrize(
    ("recipe", "output", "embedding"),
    [  # llama.cpp's
        ("Q4_0", "Q6_K", "Q4_0"),
        ("Q8_0", "Q8_0", "Q8_0"),
        ("IQ2_XXS", "Q5_K", "Q2_K"),
        ("IQ3_XXS", "Q5_K", "IQ3_S"),
        ("IQ3_XS", "Q6_K", "IQ3_S"),
        ("BF16", "BF16", "BF16"),
    ],
)
def test_output_and_embedding(recipe: str, output: str, embedding: str) -> None:
    types = types_of(qwen3_like(), recipe)
    assert (types["output.weight"], types["token_embd.weight"]) == (output, embedding)


def test_a_tied_embedding_gets_the_type_of_the_output() -> None:
    types = types_of(qwen3_like(dense(28, tied=True)), "IQ2_XXS")
    assert types["token_embd.weight"] == "Q5_K"


def test_values_that_many_heads_share_get_more_bits() -> None:
    shared = qwen3_like(attention__head_count=32)
    assert types_of(shared, "Q2_K")["blk.9.attn_v.weight"] == "Q4_K"
    assert types_of(shared, "IQ4_XS")["blk.9.attn_v.weight"] == "Q5_K"
    assert types_of(shared, "IQ1_S")["blk.9.attn_v.weight"] == "Q4_K"
    by_layer = qwen3_like(attention__head_count=[32] * 28, attention__head_count_kv=[8] + [32] * 27)
    assert types_of(by_layer, "Q2_K")["blk.9.attn_v.weight"] == "Q4_K"  # the first layer's counts


def test_rows_that_hold_no_whole_blocks_get_another_type() -> None:
    # 640 columns are no multiple of 256; of feed-forward down, 1920 columns, neither
    model = qwen3_like(dense(28, 640))
    types = types_of(model, "Q4_K_M")
    assert types["blk.3.attn_q.weight"] == "Q5_0"
    assert types["blk.0.attn_v.weight"] == "Q8_0"
    assert types["output.weight"] == "Q8_0"
    assert types_of(model, "Q3_K_S")["blk.3.attn_q.weight"] == "Q4_0"
    assert types_of(model, "Q3_K_S", revision=EARLIER)["blk.3.attn_q.weight"] == "IQ4_NL"
    odd = qwen3_like([("blk.0.attn_q.weight", (8, 40))])
    for recipe in ("Q4_K_M", "Q8_0", "Q4_0", "IQ4_NL", "MXFP4_MOE"):
        assert types_of(odd, recipe)["blk.0.attn_q.weight"] == "F16"
    for recipe, revision in (("Q8_0", EARLIER), ("Q1_0", CURRENT)):
        with pytest.raises(RecipeError, match=rf"40 weights .* blocks of {recipe}"):
            types_of(odd, recipe, revision)


def test_an_importance_matrix_makes_a_difference() -> None:
    model = qwen3_like()
    without = types_of(model, "IQ4_XS", imatrix=False)
    assert of_role(without, "ffn_down", 4) == ["Q5_K"] * 3 + ["IQ4_XS"]
    assert of_role(types_of(model, "IQ4_XS", imatrix=True), "ffn_down", 4) == ["IQ4_XS"] * 4
    assert of_role(types_of(model, "Q4_0", imatrix=True), "ffn_down", 4) == ["Q4_1"] * 3 + ["Q4_0"]
    told = qwen3_like(imatrix="imatrix.gguf")
    assert types_of(told, "IQ4_XS")["blk.0.ffn_down.weight"] == "IQ4_XS"


def _mixture(experts: int, **keys: Any) -> Model:
    lines: list[Line] = [("token_embd.weight", (512, 2880)), ("output.weight", (512, 2880))]
    for layer in range(36):
        lines += [
            (f"blk.{layer}.attn_k.weight", (512, 2880)),
            (f"blk.{layer}.attn_v.weight", (512, 2880)),
            (f"blk.{layer}.attn_output.weight", (2880, 4096)),
            (f"blk.{layer}.ffn_down_exps.weight", (experts, 2880, 2880)),
            (f"blk.{layer}.ffn_gate_inp.weight", (experts, 2880)),
        ]
    options = {"architecture": "gpt-oss", "block_count": 36, "expert_count": experts, **keys}
    return header_model(lines, attention__head_count=64, attention__head_count_kv=8, **options)


def test_a_mixture_of_many_experts() -> None:
    model = _mixture(128)
    types = types_of(model, "Q4_K_M")
    # llama.cpp's (gpt-oss-120b.schema) are Q6_K there; rows of 2,880 weights make it Q8_0
    more = {0, 1, 2, 3, *range(6, 30, 3), 30, 31, 32, 33, 34, 35}
    for role, default in (("attn_v", "Q5_0"), ("ffn_down_exps", "Q5_0")):
        found = of_role(types, role, 36)
        assert {i for i, kind in enumerate(found) if kind == "Q8_0"} == more
        assert set(found) == {"Q8_0", default}
    assert types["blk.0.ffn_gate_inp.weight"] is None
    mixed = types_of(model, "MXFP4_MOE")
    assert mixed["blk.0.ffn_down_exps.weight"] == "MXFP4"
    assert mixed["blk.0.attn_output.weight"] == mixed["token_embd.weight"] == "Q8_0"


def test_a_mixture_with_layers_of_two_kinds() -> None:
    """llama.cpp's (qwen3-coder-next.schema): rules that count tensors, and rules that count layers.

    Every fourth layer has plain attention, the others fused q, k and v; each has two kinds of
    `ffn_down`, so that counting tensors comes to the sixth in the third layer.
    """
    lines: list[Line] = []
    for layer in range(48):
        roles = ["attn_q", "attn_k", "attn_v"] if layer % 4 == 3 else ["attn_qkv"]
        roles += [f"ffn_{way}_{kind}" for way in ("down", "gate") for kind in ("exps", "shexp")]
        lines += [(f"blk.{layer}.{role}.weight", (2, 256, 256)) for role in roles]
    model = qwen3_like(
        lines, architecture="qwen3next", block_count=48, expert_count=512, attention__head_count=64
    )

    def layers_with(recipe: str, role: str, kind: str) -> list[int]:
        types = types_of(model, recipe)
        return [i for i in range(48) if types.get(f"blk.{i}.{role}.weight") == kind]

    plain = list(range(3, 48, 4))
    fused = [i for i in range(48) if i not in plain]
    for role in ("ffn_down_exps", "ffn_down_shexp"):
        assert layers_with("IQ2_XXS", role, "Q2_K") == [0, 1, 2]
        assert layers_with("Q2_K_S", role, "Q4_K") == [0, 1, 2, 3, 4, 5]
    for role in ("ffn_gate_exps", "ffn_gate_shexp"):
        assert layers_with("IQ3_XS", role, "IQ3_XXS") == list(range(6, 42))
    for recipe in ("IQ2_XXS", "Q2_K_S", "IQ3_XS", "IQ3_XXS"):
        assert layers_with(recipe, "attn_qkv", "Q4_K") == fused
        assert layers_with(recipe, "attn_v", "Q4_K") == plain
    assert layers_with("IQ3_XXS", "attn_k", "IQ2_S") == plain


def test_a_mixture_of_eight_experts() -> None:
    types = types_of(_mixture(8), "Q4_K_M")
    assert types["blk.9.attn_v.weight"] == types["blk.9.attn_k.weight"] == "Q8_0"
    assert types["blk.9.attn_output.weight"] == "Q5_K"
    low = types_of(_mixture(8), "IQ2_XS")
    assert low["blk.9.attn_output.weight"] == "Q5_K"
    assert low["blk.9.attn_k.weight"] == "Q5_0"  # Q4_K, but for rows of 2,880


def test_a_mixture_with_a_tensor_outside_its_layers_is_refused() -> None:
    lines = [("blk.7.ffn_down.weight", (256, 256))]
    model = header_model(lines, block_count=7, expert_count=4)
    with pytest.raises(RecipeError, match=r"in none of its 7 layers"):
        types_of(model, "Q4_K_M")
    assert compare_with_recipes(model) != []  # some recipes do not ask for the layer
    assert "Q4_K_M" not in {fit.recipe for fit in compare_with_recipes(model)}


def test_a_model_of_70_b_gets_more_bits_for_values() -> None:
    keys = {"architecture": "llama", "block_count": 80, "attention__head_count": 64}
    model = qwen3_like(dense(80, 256), **keys, attention__head_count_kv=8)
    values = of_role(types_of(model, "Q4_K_M"), "attn_v", 80)
    assert set(values) == {"Q6_K", "Q5_K"}
    same = qwen3_like(dense(80, 256), **keys, attention__head_count_kv=64)
    assert set(of_role(types_of(same, "Q4_K_M"), "attn_v", 80)) == {"Q6_K", "Q4_K"}


@pytest.mark.parametrize(
    ("architecture", "layers", "keys", "expected"),
    [  # layers of multi-token prediction do not count
        ("llama-embed", 80, {}, "Q5_K"),
        ("llama", 81, {"nextn_predict_layers": 1}, "Q5_K"),
        ("llama", 80, {"nextn_predict_layers": 1}, "Q4_K"),
        ("jais2", 68, {"attention__head_count_kv": 64}, "Q5_K"),
        ("jais2", 80, {}, "Q4_K"),
    ],
)
def test_what_is_a_model_of_70_b(
    architecture: str, layers: int, keys: dict[str, Any], expected: str
) -> None:
    heads = {"attention__head_count": 64, "attention__head_count_kv": 8}
    keys = {"architecture": architecture, "block_count": layers, **heads, **keys}
    types = types_of(qwen3_like(dense(80, 256), **keys), "Q4_K_M")
    assert types["blk.11.attn_v.weight"] == expected


def test_layers_are_counted_as_the_architecture_does() -> None:
    lines = [(f"blk.{layer}.ffn_down.weight", (256, 256)) for layer in range(16)]

    def better(**keys: Any) -> int:
        return of_role(types_of(qwen3_like(lines, **keys), "Q2_K_S"), "ffn_down", 16).count("Q4_K")

    assert better(architecture="nanbeige", block_count=16) == 2
    assert better(architecture="nanbeige", block_count=16, num_loops=2) == 4
    assert better(architecture="qwen3", block_count=16, num_loops=2) == 2
    assert better(architecture="graniteswitch", block_count=15) == 2  # one more: its router
    assert better(architecture="granite", block_count=15) == 1


def test_glm5_next_has_rules_of_its_own() -> None:
    roles = ("attn_q_a", "attn_k_b", "indexer.proj", "ssm_beta", "hc_attn_fn", "attn_output")
    lines = [(f"blk.0.{role}.weight", (256, 256)) for role in roles]
    plain = types_of(qwen3_like(lines, architecture="glm4", block_count=1), "Q4_K_M")
    assert set(plain.values()) == {"Q4_K"}
    own = types_of(qwen3_like(lines, architecture="glm5-next", block_count=1), "Q4_K_M")
    assert list(own.values()) == [None, "Q4_K", "Q8_0", None, None, None]  # by name
    assert own["blk.0.attn_q_a.weight"] == "Q8_0"
    copied = types_of(qwen3_like(lines, architecture="glm5-next", block_count=1), "BF16")
    assert copied["blk.0.attn_q_a.weight"] == "BF16"


def test_falcon_has_rules_of_its_own() -> None:
    model = qwen3_like(dense(32, 256), architecture="falcon", block_count=32)
    types = types_of(model, "Q4_K_M")
    assert types["output.weight"] == "Q8_0"
    assert of_role(types, "ffn_down", 6) == ["Q6_K", "Q6_K", "Q5_K", "Q5_K", "Q4_K", "Q4_K"]


def test_fused_q_k_and_v_by_both_states_of_the_rules() -> None:
    lines = [(f"blk.{layer}.attn_qkv.weight", (768, 256)) for layer in range(16)]
    model = qwen3_like(lines, architecture="phi2", block_count=16)
    now = of_role(types_of(model, "Q4_K_M"), "attn_qkv", 16)
    assert now == ["Q6_K", "Q6_K", *["Q4_K", "Q4_K", "Q6_K"] * 4, "Q6_K", "Q6_K"]
    earlier = of_role(types_of(model, "Q4_K_M", revision=EARLIER), "attn_qkv", 16)
    assert earlier == ["Q5_K"] * 16


def test_order_is_by_layer_and_name_whatever_the_file_has() -> None:
    lines = dense(28)
    assert types_of(qwen3_like(lines), "Q4_K_M") == types_of(qwen3_like(lines[::-1]), "Q4_K_M")


def test_a_file_that_is_what_it_says() -> None:
    model = as_made_by(qwen3_like(), "Q4_K_M", dense(28), file_type="Q4_K_M")
    fits = compare_with_recipes(model)
    best = fits[0]
    assert (best.recipe, best.declared, best.share, best.deviations) == ("Q4_K_M", True, 1.0, ())
    assert best.nbytes == model.nbytes
    assert sum(fit.declared for fit in fits) == 1
    assert [fit.share for fit in fits] == sorted((fit.share for fit in fits), reverse=True)
    assert verdict(model, fits) == (
        "The file says Q4_K_M, and every weight has the type that llama.cpp's Q4_K_M rule gives."
    )


def test_a_file_that_differs_from_its_label() -> None:
    lines = dense(28)
    types = {n: t for n, t in types_of(qwen3_like(), "Q4_K_M").items() if t is not None}
    types |= {f"blk.{layer}.ffn_down.weight": "Q8_0" for layer in (23, 24, 25)}
    model = qwen3_like(lines, types=types, file_type="Q4_K_M")
    fits = compare_with_recipes(model)
    declared = next(fit for fit in fits if fit.declared)
    assert len(declared.deviations) == 1
    one = declared.deviations[0]
    assert (one.role, one.expected, one.present) == ("ffn_down", "Q6_K", "Q8_0")
    assert (one.layers, one.tensors, one.parameters) == ((23, 24, 25), 3, 3 * 3 * 1024**2)
    assert declared.agreeing == model.parameters - one.parameters
    sentence = verdict(model, fits)
    assert sentence.endswith("rule gives. ffn_down of layers 23–25 is Q8_0 instead of Q6_K.")
    assert f"{100 * declared.share:.1f} % of the weights" in sentence


def test_a_wrong_label_is_reported() -> None:
    made = as_made_by(qwen3_like(), "Q3_K_S", dense(28), file_type="Q6_K")
    sentence = verdict(made, compare_with_recipes(made))
    assert sentence.startswith("The file says Q6_K, and ")
    assert sentence.endswith(" Q3_K_S agrees better, with 100.0 % of the weights.")
    unnamed = as_made_by(qwen3_like(), "Q3_K_S", dense(28))
    assert "does not say" in verdict(unnamed, compare_with_recipes(unnamed))
    assert "closest recipe is Q3_K_S" in verdict(unnamed, compare_with_recipes(unnamed))


def test_an_earlier_state_of_the_rules_is_recognized() -> None:
    lines = dense(28, 640)
    types = {
        n: t
        for n, t in types_of(qwen3_like(lines), "Q3_K_M", revision=EARLIER).items()
        if t is not None
    }
    model = qwen3_like(lines, types=types, file_type="Q3_K_M")
    best = compare_with_recipes(model)[0]
    assert (best.recipe, best.revision, best.share) == ("Q3_K_M", EARLIER, 1.0)
    assert "as it was before spring 2026" in verdict(model, [best])


def test_quantized_norms_are_reported() -> None:
    lines = [*dense(1), ("blk.0.ffn_gate_inp.weight", (256, 256))]
    types = {n: t for n, t in types_of(qwen3_like(lines), "Q8_0").items() if t is not None}
    types["blk.0.ffn_gate_inp.weight"] = "Q8_0"
    model = qwen3_like(lines, types=types, file_type="Q8_0")
    sentence = verdict(model, compare_with_recipes(model))
    assert "ffn_gate_inp of layer 0 is Q8_0 though the recipe leaves it unquantized" in sentence


def test_no_recipe_applies_to_other_formats() -> None:
    model = header_model(dense(2), kind="safetensors")
    assert compare_with_recipes(model) == []
    assert "recipe" in verdict(model, [])
    assert why_no_recipe(header_model([])) is not None
    assert len(type_mix(model)) > 0


def test_a_label_without_rules() -> None:
    model = header_model(dense(1), file_type="NVFP4", block_count=1)
    assert "for which no rule is known" in verdict(model, compare_with_recipes(model))


def test_every_file_type_of_llama_quantize_is_there() -> None:
    offered = {name for name in FILE_TYPES.values() if not name.startswith("removed")} - {"NVFP4"}
    assert set(RECIPES) == offered
    assert all(recipe.default in TENSOR_TYPES for recipe in RECIPES.values())


@pytest.mark.network
def test_the_real_model_is_what_it_says(real_model: Path) -> None:
    with open_model(real_model) as model:
        best = compare_with_recipes(model)[0]
        mix = {(row.role, row.type): row for row in type_mix(model)}
    assert (best.recipe, best.declared, best.share) == ("Q4_K_M", True, 1.0)
    assert best.nbytes == model.nbytes
    # 640 columns: Q8_0 in place of Q6_K, Q5_0 in place of Q4_K
    assert mix["token_embd", "Q8_0"].tensors == 1
    assert mix["attn_q", "Q5_0"].tensors == 18
    assert mix["ffn_down", "Q6_K"].tensors == mix["ffn_down", "Q4_K"].tensors == 9
    assert mix["ffn_down", "Q4_K"].bits_per_weight == 4.5


def test_type_mix_adds_up() -> None:
    model = as_made_by(qwen3_like(), "Q4_K_M", dense(28))
    rows = type_mix(model)
    assert sum(row.nbytes for row in rows) == model.nbytes
    assert sum(row.parameters for row in rows) == model.parameters
    assert sum(row.tensors for row in rows) == len(model.tensors.rows)
    roles = [row.role for row in rows]
    assert roles == sorted(roles, key=roles.index)  # rows of one role are neighbours


@pytest.mark.parametrize(
    ("layers", "text"),
    [((3,), "layer 3"), ((0, 3, 4, 5), "layers 0, 3–5"), (tuple(range(0, 40, 2)), "20 layers")],
)
def test_layers_as_text(layers: tuple[int, ...], text: str) -> None:
    assert layers_text(layers) == text


NAMES = st.sampled_from(
    [
        *("blk.{}.attn_v.weight", "blk.{}.attn_qkv.weight", "blk.{}.attn_kv_b.weight"),
        *("blk.{}.attn_k.weight", "blk.{}.attn_output.weight", "blk.{}.ffn_down.weight"),
        *("blk.{}.ffn_up_exps.weight", "blk.{}.ffn_gate.weight", "blk.{}.attn_norm.weight"),
        *("token_embd.weight", "output.weight", "per_layer_token_embd.weight", "weight", "\x00"),
    ]
)


@given(
    names=st.lists(st.tuples(NAMES, st.integers(0, 40)), min_size=1, max_size=30),
    columns=st.sampled_from([0, 1, 32, 40, 64, 256, 640]),
    layers=st.integers(0, 40),
    experts=st.sampled_from([0, 1, 2, 4, 8, 128]),
    heads=st.integers(0, 64),
)
def test_any_model_gets_an_answer(
    names: list[tuple[str, int]], columns: int, layers: int, experts: int, heads: int
) -> None:
    """No model makes it fail, every answer fits the tensor, and a file agrees with its maker."""
    lines = list({name.format(layer): (4, columns) for name, layer in names}.items())
    options = {"block_count": layers, "expert_count": experts, "attention__head_count": heads}
    model = header_model(lines, **options)
    assert "\x00" not in verdict(model, compare_with_recipes(model))
    for recipe in ("Q4_K_M", "IQ2_S", "MXFP4_MOE"):
        for revision in (CURRENT, EARLIER):
            try:
                found = types_of(model, recipe, revision)
            except RecipeError:
                continue
            types = {name: kind for name, kind in found.items() if kind is not None}
            assert all(columns % TENSOR_TYPES[kind].block_weights == 0 for kind in types.values())
            made = header_model(lines, types, **options)
            seen = RecipeModel.of(made)
            again = types_of(made, recipe, revision)
            assert all(agrees(tensor, again[tensor.name]) for tensor in seen.tensors)
