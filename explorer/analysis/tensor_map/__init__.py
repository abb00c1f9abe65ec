"""A matrix as a picture of bounded size (`map`), and the walk that draws it (`draw`)."""
