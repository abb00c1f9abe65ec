"""Stored tensors of Hugging Face's quantization methods, joined to logical weights."""
