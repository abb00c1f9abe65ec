"""Everything that imports Qt: `app` starts the program, `main_window` is its window."""
