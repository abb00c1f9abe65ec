"""Weights rounded to other types: what they would lose, and what would be saved."""
