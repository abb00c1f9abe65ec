"""What the columns of tables mean."""

from __future__ import annotations

from PySide6.QtCore import QCoreApplication


def _tr(text: str) -> str:
    return QCoreApplication.translate("FigureTexts", text)


def model_tree_texts() -> dict[str, str]:
    """Return the texts of the tree of open models."""
    return {
        "model": _tr("Open models, with their metadata and tensors. Select one to see it."),
        "what": _tr("Type and size of a model or a layer, the type of a tensor, or a count."),
    }


def tensor_texts() -> dict[str, str]:
    """Return the texts of the tensor table."""
    return {
        "name": _tr("The name that the file gives the tensor. Layer 3 is called blk.3 in GGUF."),
        "role": _tr("What it does in its layer"),
        "layer": _tr("Number of its layer, from 0 up; empty for a tensor that is in no layer."),
        "type": _tr(
            "How the weights are stored. F32, F16 and BF16 store each weight by itself; all "
            "others share scales in blocks."
        ),
        "shape": _tr("Rows × columns, outermost first; a GGUF file stores the reverse"),
        "parameters": _tr("Number of weights: the dimensions multiplied."),
        "bytes": _tr("Bytes of the weights in the file, scales included."),
        "bits_per_weight": _tr("Stored bits for each weight, scales included"),
        "offset": _tr("First byte in its file"),
        "file": _tr("The file of the model that holds it."),
        "problem": _tr("What is wrong with the tensor, as far as the header tells."),
    }


def metadata_texts() -> dict[str, str]:
    """Return the texts of the metadata table."""
    return {
        "key": _tr("The name that the file gives the value."),
        "type": _tr("How the value is stored; of an array, also how many elements it has."),
        "value": _tr("Enumerated values by name; of an array, the first elements"),
    }


def array_texts() -> dict[str, str]:
    """Return the texts of the elements of a metadata array."""
    return {
        "index": _tr("Place in the array, from 0 up."),
        "value": _tr("The element; enumerated values by name."),
    }


def vocabulary_texts() -> dict[str, str]:
    """Return the texts of the vocabulary."""
    return {
        "id": _tr("The token's number: what the model reads and writes."),
        "token": _tr("As stored in the file; bytes that are no text as \\xNN"),
        "text": _tr("The text that the token puts into the output"),
        "type": _tr(
            "What kind of token it is, and in parentheses what the metadata uses it for: bos "
            "begins a text, eos ends it."
        ),
        "score": _tr("How much the tokenizer prefers it when it joins pieces of text."),
    }


def code_texts() -> dict[str, str]:
    """Return the texts of the codes of a quantized tensor."""
    return {
        "code": _tr("The number that is stored for a weight."),
        "level": _tr("Its value before the block's scale"),
        "weights": _tr("How many weights have this code."),
        "share": _tr("Share of all weights, in per cent"),
    }


def block_texts() -> dict[str, str]:
    """Return the texts of the tables of one block, but for what `block_columns` says itself."""
    return {
        "field": _tr("A part of the block, by its name in ggml or in the file."),
        "bytes": _tr("Its bytes, counted from the block's first one."),
        "type": _tr("How the part is stored."),
        "value_text": _tr("What is stored in this block."),
        "meaning": _tr("What the part is good for."),
        "weights": _tr("The weights that share this scale, counted from the block's first one."),
        "weight": _tr("Place of the weight in the block, from 0 up."),
    }


def mix_texts() -> dict[str, str]:
    """Return the texts of what is stored as which type, and of what differs from a recipe."""
    return {
        "role": _tr("What the tensors do, whatever layer they are in."),
        "type": _tr("How they are stored in this file."),
        "tensors": _tr("How many tensors."),
        "parameters": _tr("How many weights they have together."),
        "bytes": _tr("Bytes that they take together."),
        "bits_per_weight": _tr("Stored bits for each weight, scales included"),
        "layers": _tr("The layers that they are in."),
        "expected": _tr("The type that the recipe would have given them."),
    }


def recipe_texts() -> dict[str, str]:
    """Return the texts of the recipes that a file is held against."""
    return {
        "recipe": _tr(
            "A rule of llama.cpp that gives each tensor a type, as llama-quantize takes it."
        ),
        "agreeing": _tr("Part of the weights whose tensor has the type that the recipe gives"),
        "groups": _tr("Groups of tensors of one role that have another type than by the recipe."),
        "bytes": _tr("Bytes that the tensors would take by the recipe"),
        "difference": _tr("What the file takes more, or less, than by the recipe."),
    }


def what_if_texts() -> dict[str, str]:
    """Return the texts of what other types would cost, but for errors and memory."""
    return {
        "type": _tr("The type that the chosen tensors would have. The first line is as it is."),
        "bits_per_weight": _tr("Stored bits for each weight of the chosen tensors."),
        "bytes": _tr("Bytes that the tensors above take in this type."),
        "bytes_change": _tr("Against the present size."),
        "file_bytes": _tr("Bytes of the model's files."),
        "note": _tr("What else there is to know, such as how much is measured so far."),
    }


def library_texts() -> dict[str, str]:
    """Return the texts of the tree of downloaded models."""
    return {
        "name": _tr("Stores, their models, and what a model is made of."),
        "architecture": _tr("The architecture that the model's header names."),
        "parameters": _tr("Number of weights, as the header tells."),
        "quantization": _tr("The file type that the header names, such as Q4_K_M."),
        "bytes": _tr("Bytes on disk. What several models share counts once in a sum."),
        "modified": _tr("When it was written or downloaded."),
        "note": _tr("What is wrong, missing or shared."),
    }


def blob_texts() -> dict[str, str]:
    """Return the texts of the list of blobs."""
    return {
        "blob": _tr("The file's name: the digest of its content"),
        "bytes": _tr("Bytes of the file on disk."),
        "state": _tr("Whether models use it, nobody does, or its download has not ended."),
        "models": _tr("How many models and tags use it"),
        "store": _tr("The program that keeps it."),
        "used_by": _tr("The models and tags that use it."),
    }
