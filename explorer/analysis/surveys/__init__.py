"""Figures of every tensor of a model, worked out in the background and kept on disk.

`tensors` goes over a model, `run` can be paused and resumed, and `cache` keeps what was found: a
line of `kept_lines` for each tensor, written and read by `records` and `error_records`.
"""
