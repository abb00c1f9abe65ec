"""mlx-lm on a Mac: what it holds in memory (docs/planner.md, section 18)."""
