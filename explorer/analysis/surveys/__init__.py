"""Figures of every tensor of a model, worked out in the background and kept on disk."""
