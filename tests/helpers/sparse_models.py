"""Models of real size whose weights are holes: a header, and a file that takes no room on disk."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from explorer.quantization import TENSOR_TYPES
from tests.helpers.small_gguf import SmallGguf

_ALIGNMENT = 32


@dataclass(frozen=True)
class Shape:
    """What a model of llama's kind is made of; with `experts` of mixtral's."""

    blocks: int = 32
    width: int = 4096
    feed_forward: int = 14336
    heads: int = 32
    kv_heads: int = 8
    context: int = 131072
    vocabulary: int = 1000
    experts: int = 0
    kind: str = "Q4_K"

    def tensors(self) -> list[tuple[str, tuple[int, ...]]]:
        """Return names and dimensions in ggml's order."""
        e, kv, ff = self.width, self.width // self.heads * self.kv_heads, self.feed_forward
        found: list[tuple[str, tuple[int, ...]]] = [
            ("token_embd.weight", (e, self.vocabulary)),
            ("output.weight", (e, self.vocabulary)),
            ("output_norm.weight", (e,)),
        ]
        for block in range(self.blocks):
            parts = {
                "attn_norm": (e,), "ffn_norm": (e,),
                "attn_q": (e, e), "attn_k": (e, kv), "attn_v": (e, kv), "attn_output": (e, e),
            }  # fmt: skip
            if self.experts:
                n = self.experts
                parts |= {"ffn_gate_inp": (e, n), "ffn_down_exps": (ff, e, n)}
                parts |= {"ffn_gate_exps": (e, ff, n), "ffn_up_exps": (e, ff, n)}
            else:
                parts |= {"ffn_gate": (e, ff), "ffn_up": (e, ff), "ffn_down": (ff, e)}
            found += [(f"blk.{block}.{name}.weight", dims) for name, dims in parts.items()]
        return found

    def write(self, path: Path) -> Path:
        """Write the file; return its path."""
        keys: list[tuple[str, int | str | list[int] | list[str]]] = [
            ("general.architecture", "llama"),
            ("general.name", path.stem),
            ("llama.block_count", self.blocks),
            ("llama.embedding_length", self.width),
            ("llama.feed_forward_length", self.feed_forward),
            ("llama.context_length", self.context),
            ("llama.attention.head_count", self.heads),
            ("llama.attention.head_count_kv", self.kv_heads),
            ("tokenizer.ggml.tokens", [f"token{i}" for i in range(self.vocabulary)]),
        ]
        if self.experts:
            keys += [("llama.expert_count", self.experts), ("llama.expert_used_count", 2)]
        placed, offset = [], 0
        for name, dims in self.tensors():
            kind = TENSOR_TYPES["F32" if len(dims) == 1 else self.kind]
            count = 1
            for extent in dims:
                count *= extent
            placed.append((name, dims, kind.id, offset))
            offset += -(-(kind.nbytes(count) or 0) // _ALIGNMENT) * _ALIGNMENT
        header = SmallGguf(keys=keys, tensors=placed).write()
        with path.open("wb") as file:
            file.write(header)
            file.truncate(-(-len(header) // _ALIGNMENT) * _ALIGNMENT + offset)
        return path
