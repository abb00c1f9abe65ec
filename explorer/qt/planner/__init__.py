"""The planner panel: what a model needs in memory, on which devices, and why."""
