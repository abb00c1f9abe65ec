"""vLLM: what it allocates on each GPU (docs/planner.md, section 17)."""
