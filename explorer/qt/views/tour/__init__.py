"""A tour of the window: boxes that point at its parts, one after another."""
