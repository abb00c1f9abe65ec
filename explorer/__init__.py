"""GGUF Explorer: see what is inside downloaded language models."""

from typing import Final

__version__: Final = "0.1.0"
