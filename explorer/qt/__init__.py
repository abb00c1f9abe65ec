"""Everything that imports Qt.

`app` starts the program, `main_window` is its window, `panels` its tabs; `linking` keeps them at
the same tensor. Data for widgets is in `models`, widgets are in `views`, threads in `jobs`.
"""
