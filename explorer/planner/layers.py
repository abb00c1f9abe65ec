"""Which layers of a folder's model attend, over a window or to all, and which keep a state.

Facts of config.json, the same for every program that loads such a folder.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from explorer.planner.folder import Folder


class State(StrEnum):
    """What layers without attention keep of a request."""

    MAMBA2 = "Mamba-2"
    GATED_DELTA = "gated delta net"
    SHORT_CONV = "short convolution"


FULL_EVERY: Final[Mapping[str, int]] = MappingProxyType(
    {"cohere2": 4, "olmo3": 4, "gemma2": 2, "gemma3_text": 6, "gpt_oss": 2, "llama4_text": 4}
)
"""`model_type` → one of how many layers has full attention, where a config does not say.

Source: transformers 5.20, the configuration of each model.
"""

_KINDS: Final = {
    "sliding_attention": "local",
    "chunked_attention": "local",
    "mamba": "state",
    "linear_attention": "state",
    "conv": "state",
}


def layer_kinds(folder: Folder, *, by_pattern: bool = False) -> list[str]:
    """Return what each layer is: "full", "local", "state", or "" without any cache.

    With `by_pattern`, `layer_types` of the config is not looked at.
    """
    count = folder.layers
    pattern = folder.text.get("hybrid_override_pattern")
    if isinstance(pattern, str):
        signs = {"*": "full", "M": "state"}
        return [signs.get(sign, "") for sign in pattern[:count]]
    listed = folder.texts("layer_types") or folder.texts("layers_block_type")
    if listed and len(listed) == count and not by_pattern:
        return [_KINDS.get(one, "full") for one in listed]
    every = folder.number("full_attention_interval", default=0)
    if every:
        return ["full" if (i + 1) % every == 0 else "state" for i in range(count)]
    full_every = FULL_EVERY.get(folder.model_type, 0)
    every = folder.number("sliding_window_pattern", default=full_every)
    if full_every and every:
        return ["full" if (i + 1) % every == 0 else "local" for i in range(count)]
    return ["full"] * count


def windowed_kinds(folder: Folder, key: str = "sliding_window") -> tuple[list[str], int]:
    """Return what each layer is, and the tokens that one with a window sees; 0 without windows.

    Where a config tells no layers apart, all that attend have the window that it states, or none.
    `key` is where it states the window.
    """
    is_off = folder.text.get("use_sliding_window") is False
    window, kinds = 0 if is_off else folder.number(key, default=0), layer_kinds(folder)
    if len(_ATTENTION.intersection(kinds)) == 1:
        alike = "local" if window else "full"
        kinds = [alike if kind in _ATTENTION else kind for kind in kinds]
    return kinds, window


_ATTENTION: Final = frozenset({"full", "local"})


def kv_sizes(folder: Folder, *, latent: bool = False) -> tuple[int, tuple[int, int]]:
    """Return the key and value heads, and the elements of a token in the keys and values of each.

    `latent` is whether the latent is cached, not the keys and values that are made of it.
    """
    if latent:
        return 1, (folder.number("kv_lora_rank"), folder.number("qk_rope_head_dim"))
    if nope := folder.number("qk_nope_head_dim", default=0):
        length = nope + folder.number("qk_rope_head_dim")
        return folder.heads, (length, folder.number("v_head_dim"))
    return folder.kv_heads, (folder.head, folder.head)


def state_elements(folder: Folder, state: State, gpus: int = 1) -> tuple[int, int]:
    """Return the elements of the convolution and of the state of one layer, on each of some GPUs.

    Raises:
        PlanError: The config lacks a size.
    """
    if state is State.SHORT_CONV:
        steps = folder.number("conv_L_cache", least=1) - 1
        return steps * (folder.number("hidden_size") // gpus), 0
    if state is State.GATED_DELTA:
        heads, length = folder.number("linear_num_value_heads"), delta_key(folder)
        value = folder.number("linear_value_head_dim")
        width = 2 * folder.number("linear_num_key_heads") * length + heads * value
        steps = folder.number("linear_conv_kernel_dim", least=1) - 1
        return steps * (width // gpus), heads // gpus * value * length
    heads, length, size, groups = mamba_sizes(folder)
    width = heads * length // gpus + 2 * mamba_groups(groups, gpus) * size
    steps = folder.number("mamba_d_conv", "conv_kernel", least=1) - 1
    return steps * width, heads // gpus * length * size


def mamba_sizes(folder: Folder) -> tuple[int, int, int, int]:
    """Return heads, length of a head, size of the state, and groups of Mamba-2."""
    return (
        folder.number("mamba_n_heads", "mamba_num_heads"),
        folder.number("mamba_d_head", "mamba_head_dim"),
        folder.number("mamba_d_state", "ssm_state_size"),
        folder.number("mamba_n_groups", "n_groups", least=1),
    )


def mamba_groups(groups: int, gpus: int) -> int:
    """Return the groups of one GPU; groups that cannot be divided are repeated."""
    return groups // gpus if groups % gpus == 0 else 1


def delta_key(folder: Folder) -> int:
    """Return the length of a key of a gated delta net."""
    return folder.number("linear_key_head_dim")


def inner_width(folder: Folder) -> int:
    """Return the width of the feed-forward part that a token passes, all its experts counted."""
    dense = folder.number("intermediate_size", "ffn_hidden_size", "n_inner", default=0)
    used = folder.number("num_experts_per_tok", "experts_per_token", default=0)
    width = folder.number("moe_intermediate_size", default=dense)
    shared = folder.number("shared_expert_intermediate_size", "shared_intermediate_size", default=0)
    shared += folder.number("n_shared_experts", default=0) * width
    return max(dense, used * width + shared)
