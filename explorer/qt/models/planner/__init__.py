"""What the planner panel shows and remembers."""
