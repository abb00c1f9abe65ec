"""What single figures mean: statistics of weights, and the facts of a model."""

from __future__ import annotations

from PySide6.QtCore import QCoreApplication


def _tr(text: str) -> str:
    return QCoreApplication.translate("FigureTexts", text)


def statistic_texts() -> dict[str, str]:
    """Return the texts of statistics, by their names in `gguf-explorer stats`."""
    return {
        "count": _tr("All numbers that were looked at. Nothing is sampled."),
        "finite": _tr("Those that are neither NaN nor infinite; the figures below are of these."),
        "nan": _tr("Those that are not a number. A sound model has none."),
        "positive_inf": _tr("Those that are infinite. A sound model has none."),
        "negative_inf": _tr("Those that are minus infinity. A sound model has none."),
        "zeros": _tr("Those that are exactly 0, or minus 0."),
        "min": _tr("The least one."),
        "max": _tr("The greatest one."),
        "mean": _tr("Their sum divided by their count."),
        "std": _tr("How far they are spread around the mean: the root of the mean square of it."),
        "rms": _tr("The root of the mean of their squares: how large they usually are."),
        "abs_max": _tr("The one farthest from 0, without its sign."),
        "outlier_ratio": _tr(
            "The one farthest from 0 by the root mean square: how far it stands out."
        ),
        "skewness": _tr(
            "Third standardized moment: 0 for a symmetric shape, above 0 if the tail on the right "
            "is longer."
        ),
        "kurtosis": _tr(
            "Fourth standardized moment: 3 for a normal distribution, more where the tails are "
            "heavy. Heavy tails are hard to quantize, for a block's scale follows its largest "
            "weight."
        ),
    }


def percentile_text() -> str:
    """Return the text of a percentile of weights."""
    return _tr(
        "So many per cent of the weights are not larger than this. Read from a histogram of at "
        "least 65,536 bins."
    )


def statistic_column_texts() -> dict[str, str]:
    """Return the texts of a table with a line for each figure."""
    return {
        "statistic": _tr("What is told of all weights. Ask a line what it means."),
        "value": _tr("The figure. Copying and export take all of its digits."),
        "tensor": _tr("The tensor whose figures stand in this line."),
    }


def fact_texts() -> dict[str, str]:
    """Return the texts of the facts about a model."""
    return {
        "architecture": _tr(
            "The family that the model belongs to: it says which layers there are and how a "
            "program computes with them."
        ),
        "parameters": _tr("Number of weights of all tensors together."),
        "file_type": _tr("The mix of tensor types that the file says it was made with."),
        "nbytes": _tr("Bytes of all weights, without the header."),
        "bits_per_weight": _tr(
            "Stored bits for each weight, over all tensors, scales included. Tensors that stay "
            "unquantized raise it."
        ),
        "context_length": _tr(
            "The longest text that the model was trained on, in tokens. A server may give it less."
        ),
        "layers": _tr("How many blocks of attention and feed-forward follow one another."),
        "embedding_length": _tr("Numbers that stand for one token between two layers."),
        "feed_forward_length": _tr("Width of the feed-forward part of a layer."),
        "heads": _tr("Attention heads of a layer; a list if they differ from layer to layer."),
        "kv_heads": _tr(
            "Heads that keys and values have. Fewer than attention heads make a smaller KV cache."
        ),
        "key_length": _tr("Numbers in the key of one head for one token."),
        "value_length": _tr("Numbers in the value of one head for one token."),
        "experts": _tr("Feed-forward parts of a layer of which only some work on each token."),
        "experts_used": _tr("How many of the experts work on each token."),
        "vocabulary": _tr("How many different tokens the model reads and writes."),
        "tokenizer": _tr("How text is cut into tokens."),
        "format": _tr("The kind of file, its version, and its byte order if it is not the usual."),
        "license": _tr("The terms of use, as the file names them."),
        "alignment": _tr("Bytes that the place of each tensor is a multiple of."),
        "data_offset": _tr("Where the weights begin in the file."),
        "tensors": _tr("How many named arrays of weights the model is made of."),
        "metadata": _tr("How many named values the header holds beside the tensors."),
    }
