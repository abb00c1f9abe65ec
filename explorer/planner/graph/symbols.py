"""The symbols of the formulas, with the spelling of planner.md section 5."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from explorer.planner.hyperparameters import Hyperparameters
from explorer.planner.kv_cache import KvCache
from explorer.planner.workload import Workload


@dataclass(frozen=True, slots=True)
class Symbols:
    """What a row of the table may read.

    Attributes:
        E: Embedding length.
        V: Number of tokens of the vocabulary.
        H: Largest number of heads of a block.
        K: Largest number of key and value heads of a block.
        Kmin: Smallest number of key and value heads of a block.
        D: Head length, E // smallest number of heads.
        Dk: Length of a head's key.
        FF: Feed-forward length.
        B: Batch.
        C: Context × parallel.
        Np: Parallel.
        G: Bytes of block 0's stacked gate experts; 0 without.
        W: Width of block 0's first split gate expert; 0 without.
        S: Length of block 0's fused attention bias; 0 without.
        R: Elements of ``rope_freqs.weights``.
        KVdefault: Bytes of the cache before an architecture's rule replaced entries.
        KVtotal: Bytes of the cache.
    """

    E: int
    V: int
    H: int
    K: int
    Kmin: int
    D: int
    Dk: int
    FF: int
    B: int
    C: int
    Np: int
    G: int
    W: int
    S: int
    R: int
    KVdefault: int
    KVtotal: int

    @property
    def b(self) -> int:
        """Bytes of one float for each token of the batch, 4 * B."""
        return 4 * self.B


def symbols_of(h: Hyperparameters, w: Workload, cache: KvCache) -> Symbols:
    """Return the values of all symbols."""
    tensors = h.tensors
    return Symbols(
        E=h.embedding_length,
        V=h.vocabulary,
        H=h.heads,
        K=h.kv_heads,
        Kmin=h.kv_heads_min,
        D=h.head_length,
        Dk=h.key_length,
        FF=h.feed_forward_length,
        B=w.batch,
        C=w.cells,
        Np=w.parallel,
        G=tensors.gate_experts_bytes or 0,
        W=tensors.expert_width or 0,
        S=tensors.fused_bias_length or 0,
        R=tensors.rope_weights,
        KVdefault=cache.default_total,
        KVtotal=cache.total,
    )


TENSOR_ORIGINS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "G": "bytes of tensor blk.0.ffn_gate_exps.weight",
        "W": "second dimension of tensor blk.0.ffn_gate.0.weight",
        "S": "length of tensor blk.0.attn_qkv.bias",
        "R": "elements of tensor rope_freqs.weights, which real files do not have",
    }
)
"""Where the symbols that are read from tensors come from."""
