"""The library panel: every store of this machine, its downloaded models and its blobs."""
