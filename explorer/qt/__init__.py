"""Everything that imports Qt."""
