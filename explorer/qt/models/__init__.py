"""Item models over the core's objects: no widget, no file access.

A package answers to the one of the same name in `explorer.qt.views`. What all of them build on lies
here: `document` is an open model, `table` a long sorted and filtered table.
"""
