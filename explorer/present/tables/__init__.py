"""Every table of the program, each defined once: a module a subject, a `Column` a column."""
