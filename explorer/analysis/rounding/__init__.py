"""Weights rounded to another type and back, in memory: what a requantization would keep of them.

`rounders` rounds runs of weights to a type, `rounded_weights` those of a tensor.
"""
