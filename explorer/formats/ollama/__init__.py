"""Ollama's store of manifests and blobs: names, what a manifest lists, and the model it makes."""
