"""One block of a quantized tensor: taken apart, compared with a reference, and searched for.

`detail` takes it apart, `beside` puts the same weights of a reference next to it, `search` finds
the blocks worth looking at, and `record` makes JSON of one.
"""
