"""The survey panel: a whole model as a map, its worst tensors and its mix of types."""
