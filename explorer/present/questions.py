"""What people ask, in their words, and the page that answers: Ctrl+K finds these rows first."""

from __future__ import annotations

from typing import Final, NamedTuple

MACHINE: Final = "machine"
"""Stands for the dialog of GPUs and memory, where a page's name stands otherwise."""


FILES: Final = "files"
"""Stands for the list of files in the library."""

ATTACHMENTS: Final = "attachments"
"""Stands for the button of the planner that adds a projector and the like."""

SAVE: Final = "save"
"""Stands for the menu of what can be saved."""

QUANTS: Final = "quants"
"""Stands for the list of a model's quants; without a model, for the library."""


_FILLERS: Final = (
    "a an and any are as between can could do does enough for get have i if in is it many me mode "
    "much my of on or per please see show so some that the there this to use very want which will "
    "with would you"
)
FILLERS: Final = frozenset(_FILLERS.split())
"""Words of a question that say nothing of what is asked."""


class Question(NamedTuple):
    """A question, the name of the page that answers it, and other words for it."""

    text: str
    page: str
    words: str


QUESTIONS: Final = (
    Question(
        "Does this model fit? Largest context, memory",
        "planner",
        "what fit fits run runs start load vram ram memory kv cache smaller context length tokens "
        "offload layers experts moe cpu command ollama lm studio server how",
    ),
    Question(
        "How fast is it, and why is it slow?", "planner", "speed slow fast tokens/s second how why"
    ),
    Question(
        "Pictures, sound: add a projector, an adapter or a draft model",
        ATTACHMENTS,
        "projector mmproj vision images audio multimodal adapter lora draft mtp speculative file",
    ),
    Question(
        "Two models at once: what fits beside another?",
        "planner",
        "two models several both together also loaded embedding beside",
    ),
    Question("Which of my models fit?", "library", "models fit fits run downloaded list"),
    Question(
        "Which quant should I take?",
        QUANTS,
        "quant quants quantization take choose best download bits q4 q5 q6 q8 size",
    ),
    Question("Which GPU, how much memory?", MACHINE, "gpu vram card graphics ram machine add"),
    Question(
        "Free space: unused files, the largest models",
        FILES,
        "free space delete remove hard disk full clean duplicates unused ollama rm",
    ),
    Question(
        "What is in this file, and is it damaged?",
        "overview",
        "what file inside architecture type quant size damaged broken corrupt problems",
    ),
    Question("What changed between two models?", "compare", "compare diff difference quants q4 q8"),
    Question(
        "What does quantization lose? Errors, importance matrix",
        "errors",
        "error quality loss lossy imatrix importance rmse perplexity quant quants better",
    ),
    Question("Which tensors lost most?", "error_tensors", "layer worst tensors error lost most"),
    Question("Which layers lost most?", "error_map", "layer map worst error lost most"),
    Question("What if it had other types?", "what_if", "what if types recipes smaller requantize"),
    Question(
        "Which tensors stand out?", "survey", "layer outliers tensors largest biggest map all"
    ),
    Question(
        "Chat template and other metadata", "metadata", "chat template system prompt rope license"
    ),
    Question(
        "Save a table, a picture or a report",
        SAVE,
        "save export copy csv json parquet pdf png svg html print chart figure plot data",
    ),
    Question("Tokens of the vocabulary", "vocabulary", "token tokens tokenizer special bos eos"),
)
