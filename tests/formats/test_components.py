"""Checkpoints that hold several models: what each of them takes."""

from __future__ import annotations

from pathlib import Path

import pytest

from explorer.errors import PlanError
from explorer.formats import open_model
from explorer.formats.facts import describe
from explorer.formats.tensors import parse_name
from explorer.planner.inputs import header_to_plan
from explorer.present.model import model_sentence
from tests.helpers.model_pairs import arrays_of, write_safetensors

_NAMES = {
    "model.diffusion_model.double_blocks.1.img_attn.qkv.weight": (64, 32),
    "text_encoders.t5xxl.transformer.encoder.block.0.layer.0.SelfAttention.q.weight": (32, 16),
    "conditioner.embedders.0.transformer.text_model.encoder.layers.0.mlp.fc1.weight": (16, 8),
    "first_stage_model.decoder.conv_in.weight": (8, 4),
    "alphas_cumprod": (10,),
}


def test_each_model_of_a_checkpoint_has_its_share(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.safetensors"
    write_safetensors(path, arrays_of(_NAMES, 3))
    with open_model(path) as model:
        facts = describe(model)
        assert [(one.name, one.parameters, one.nbytes) for one in facts.components] == [
            ("diffusion model", 2048, 8192),
            ("text encoder t5xxl", 512, 2048),
            ("text encoder 0", 128, 512),
            ("VAE", 32, 128),
            ("other tensors", 10, 40),
        ]
        assert sum(one.share for one in facts.components) == 1
        assert "A checkpoint of 2,730 weights" in model_sentence(model, facts)
        assert "diffusion model, text encoder t5xxl" in model_sentence(model, facts)
        with pytest.raises(PlanError, match="not a language model"):
            header_to_plan(model)


@pytest.mark.parametrize(
    ("tensor", "part"),
    [
        ("text_model.encoder.layers.0.mlp.fc1.weight", "text encoder (CLIP)"),
        ("encoder.block.0.layer.0.SelfAttention.k.weight", "text encoder (T5)"),
        ("decoder.conv_in.weight", "VAE"),
    ],
)
def test_a_part_in_a_file_of_its_own_says_what_it_is(
    tmp_path: Path, tensor: str, part: str
) -> None:
    path = tmp_path / "part.safetensors"
    write_safetensors(path, arrays_of({tensor: (8, 4), "last.bias": (4,)}, 3))
    with open_model(path) as model:
        facts = describe(model)
        assert [(one.name, one.share) for one in facts.components] == [(part, 1)]
        assert model_sentence(model, facts).endswith(f": {part}.")
        with pytest.raises(PlanError, match="not a language model"):
            header_to_plan(model)


def test_blocks_of_diffusion_models_are_layers(tmp_path: Path) -> None:
    found = parse_name("model.diffusion_model.double_blocks.1.img_attn.qkv.weight")
    stack = "model.diffusion_model.double_blocks"
    assert (found.stack, found.layer, found.role) == (stack, 1, "img_attn.qkv")
    path = tmp_path / "model.safetensors"
    write_safetensors(path, arrays_of({"model.layers.0.mlp.up_proj.weight": (8, 4)}, 3))
    with open_model(path) as model:
        assert describe(model).components == ()
