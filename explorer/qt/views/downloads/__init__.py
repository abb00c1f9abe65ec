"""The panel of downloaded models: every store of this machine, its models and its blobs."""
