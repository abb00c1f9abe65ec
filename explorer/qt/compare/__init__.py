"""The errors panel: a tensor against a reference or another type."""
