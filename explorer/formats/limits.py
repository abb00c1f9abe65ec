"""Limits that a header must keep, so that a hostile one is refused before it costs anything.

Those of ggml are docs/gguf.md section 2 (ggml/src/gguf.cpp). Others are ours, each far above what
any real model has, and chosen so that opening stays within 100 MB and one second whatever a file
claims.
"""

from __future__ import annotations

from typing import Final

GGUF_MAX_STRING_BYTES: Final = 1 << 30
"""Longest string of a GGUF file, ggml's limit."""

GGUF_MAX_ARRAY_ELEMENTS: Final = 1 << 30
"""Most elements of an array, ggml's limit."""

MAX_STRING_ELEMENTS: Final = 3_000_000
"""Most strings of all arrays of one file: each must be walked over. The largest real vocabularies
have 2^19, and as many merges."""

MAX_INNER_ARRAYS: Final = 50_000
"""Most arrays inside arrays of one file: each must be walked over. Real files have none."""

MAX_ARRAY_DEPTH: Final = 16
"""Deepest nesting of arrays. ggml refuses nesting at all; nothing real goes beyond 2."""

MAX_KEY_BYTES: Final = 65_535
"""Longest key (GGUF specification), and our limit for a tensor's name too; ggml's is 63."""

MAX_KEYS: Final = 1 << 16
"""Most metadata keys; real files have some dozens."""

MAX_TENSORS: Final = 1 << 17
"""Most tensors of one file; the largest real model has about 20,000 over all its shards."""

MAX_DIMENSIONS: Final = 8
"""Most dimensions of a tensor that is read; ggml has 4 (GGML_MAX_DIMS)."""

MAX_NAMES_BYTES: Final = 32 << 20
"""Most bytes of all keys, or of all tensor names, of one file together."""

EAGER_STRING_BYTES: Final = 4096
"""Longest string value that is decoded while opening; a longer one is decoded on first use."""

EAGER_TOTAL_BYTES: Final = 8 << 20
"""String bytes that opening decodes at most; behind them every string is decoded on first use."""

MAX_TEXT_BYTES: Final = 64 << 20
"""Longest single string that is decoded for looking at."""

SAFETENSORS_MAX_HEADER_BYTES: Final = 100_000_000
"""Longest header of a safetensors file (safetensors/src/tensor.rs, MAX_HEADER_SIZE); inclusive."""

SAFETENSORS_MAX_TENSORS: Final = 100_000
"""Most tensors of one safetensors file. DeepSeek-V3 has 92,000, over 163 shards."""

MAX_JSON_TEXT_BYTES: Final = 24 << 20
"""Longest JSON text that is parsed, white space around it left out; a quarter if it is not ASCII.

20,000 tensors take some 3 MB. A longer header is legal, but only white space makes one so long."""

MAX_JSON_FILE_BYTES: Final = 24 << 20
"""Longest side file in JSON (index, config) that is read."""

MAX_TOKENIZER_BYTES: Final = 64 << 20
"""Longest tokenizer.json that is looked through; that of Gemma 3 (262,144 tokens) has 33 MB."""

MAX_MEMBER_BYTES: Final = 16 << 20
"""Longest member of such a file that is decoded. Vocabularies take half of it, at most."""

MAX_VOCABULARY: Final = 1 << 20
"""Most tokens of a vocabulary that are decoded; the largest real ones have a quarter of it."""

MAX_JSON_VALUES: Final = 300_000
"""Most values of a side file in JSON; the largest real index, of 280,000 tensors, has as many."""

MAX_FILE_NAME: Final = 4096
"""Longest name of a shard in an index, in characters: the longest path that Linux takes."""

MAX_SHARDS: Final = 1000
"""Most shards of a model that are opened; the largest real ones have some 200."""

MAX_CONFIG_ENTRIES: Final = 4096
"""Most fields of a config.json that become metadata."""

MAX_CONFIG_KEY_TEXT: Final = 4 << 20
"""Most characters of their keys together: the key of a field names all objects that it lies in."""

MAX_TEXT_LAYERS: Final = 1000
"""Most layers of an Ollama manifest that are read beside the weights; real ones have dozens."""
