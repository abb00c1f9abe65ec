"""The parts of a checkpoint that holds several models: diffusion model, text encoders, VAE.

Programs for images and video keep them in one file, each below a prefix of its own, or each in a
file without a config.json. Sources: ComfyUI, `comfy/supported_models.py`,
`supported_models_base.py` and `sd.py` (`detect_te_model`, `VAE`); ComfyUI-GGUF, `loader.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from types import MappingProxyType
from typing import Final

from explorer.formats.model import Model
from explorer.formats.tensors import TypeShare

_PREFIXES: Final = {
    "model.diffusion_model.": "diffusion model",
    "diffusion_model.": "diffusion model",
    "model_ema.": "averaged diffusion model",
    "control_model.": "ControlNet",
    "first_stage_model.": "VAE",
    "vae.": "VAE",
    "audio_vae.": "audio VAE",
    "vocoder.": "vocoder",
    "cond_stage_model.": "text encoder",
    "conditioner.embedders.": "text encoder",
    "text_encoders.": "text encoder",
}
_NUMBERED: Final = ("conditioner.embedders.", "text_encoders.")  # which one stands behind
_STARTS: Final = tuple(_PREFIXES)
_OTHERS: Final = "other tensors"
_ALONE: Final = {
    "text_model.encoder.layers.0.mlp.fc1.weight": "text encoder (CLIP)",
    "encoder.block.0.layer.0.SelfAttention.k.weight": "text encoder (T5)",
    "decoder.conv_in.weight": "VAE",
    "decoder.middle.0.residual.0.gamma": "VAE",
}
"""A tensor that tells what a file holds which has no prefixes."""
_MOST: Final = 64  # a hostile file may name a text encoder for each tensor

IMAGE_ARCHITECTURES: Final[Mapping[str, str]] = MappingProxyType(
    {
        **dict.fromkeys(("flux", "sd1", "sdxl", "sd3", "aura", "hidream", "lumina2"), "images"),
        **dict.fromkeys(("qwen_image", "cosmos"), "images"),
        **dict.fromkeys(("ltxv", "hyvid", "wan"), "video"),
    }
)
"""What diffusion models in GGUF make, by their architecture (ComfyUI-GGUF, `IMG_ARCH_LIST`)."""


def components(model: Model) -> tuple[TypeShare, ...]:
    """Return what each part of a checkpoint takes, most bytes first; nothing of a whole model."""
    table = model.tensors
    names = table.columns.names[: table.main_rows]
    if any(name.startswith(_STARTS) for name in names):
        titles = list(map(_title, names))
    else:
        alone = next((title for name, title in _ALONE.items() if name in table), "")
        titles = [] if model.config or not alone else [alone] * len(names)
    kept = {_OTHERS, *islice(dict.fromkeys(titles), _MOST)}
    return tuple(table.shares(title if title in kept else _OTHERS for title in titles))


def _title(name: str) -> str:
    prefix = next((one for one in _STARTS if name.startswith(one)), None)
    if prefix is None:
        return _OTHERS
    title = _PREFIXES[prefix]
    if prefix not in _NUMBERED:
        return title
    return f"{title} {name[len(prefix) :].partition('.')[0][:40]}"
