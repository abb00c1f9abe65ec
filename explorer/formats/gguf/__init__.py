"""GGUF: `open` makes a model of headers, `arrays` skips and decodes arrays, `llama_cpp` warns."""
