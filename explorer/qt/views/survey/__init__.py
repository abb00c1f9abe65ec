"""All tensors of a model at once: a map by layer and role, the worst first, its mix of types."""
