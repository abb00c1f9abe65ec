"""Item models over the core's objects: no widget, no file access."""
