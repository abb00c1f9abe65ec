"""The window of the user guide."""
