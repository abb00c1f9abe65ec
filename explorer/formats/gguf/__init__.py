"""GGUF: `open` walks headers and makes a model of them, `arrays` skips and decodes arrays."""
