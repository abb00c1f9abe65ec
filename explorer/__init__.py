"""GGUF Explorer: see what is inside downloaded language models."""

__version__ = "0.1.0"
