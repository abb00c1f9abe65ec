"""GGUF: a header walked without decoding its arrays, and tensors whose places are checked.

`opening` makes a model of `header`, whose parts are `arrays`, `strings` and `records`; `tensors`
checks what the records claim.
"""
