"""safetensors: a JSON header as strict as the library reads it, and weights joined with scales."""
