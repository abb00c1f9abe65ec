"""What llama.cpp allocates: `header` is read of a model, `allocation` adds up buffers.

`fitting` decides what llama.cpp decides by itself.
"""
