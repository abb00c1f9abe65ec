"""How far work in the background is, and how to end it."""
