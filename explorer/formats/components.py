"""The parts of a checkpoint that holds several models: diffusion model, text encoders, VAE.

Programs for images and video keep them in one file, each below a prefix of its own. Sources:
ComfyUI, `comfy/supported_models.py` and `supported_models_base.py`; ComfyUI-GGUF, `loader.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from types import MappingProxyType
from typing import Final

from explorer.formats.tensors import TensorTable, TypeShare

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
_MOST: Final = 64  # a hostile file may name a text encoder for each tensor

IMAGE_ARCHITECTURES: Final[Mapping[str, str]] = MappingProxyType(
    {
        **dict.fromkeys(("flux", "sd1", "sdxl", "sd3", "aura", "hidream", "lumina2"), "images"),
        **dict.fromkeys(("qwen_image", "cosmos"), "images"),
        **dict.fromkeys(("ltxv", "hyvid", "wan"), "video"),
    }
)
"""What diffusion models in GGUF make, by their architecture (ComfyUI-GGUF, `IMG_ARCH_LIST`)."""


def components(table: TensorTable) -> tuple[TypeShare, ...]:
    """Return what each model in a checkpoint takes, most bytes first; nothing of a single model."""
    names = table.columns.names[: table.main_rows]
    if not any(name.startswith(_STARTS) for name in names):
        return ()
    titles = list(map(_title, names))
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
