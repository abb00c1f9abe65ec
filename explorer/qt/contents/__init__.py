"""The tree of open models, and what a model holds: overview, metadata, tensors, vocabulary."""
