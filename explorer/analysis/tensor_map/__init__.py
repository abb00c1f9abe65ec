"""A matrix as a picture of bounded size: what can be drawn of it, and the walk that draws it."""
