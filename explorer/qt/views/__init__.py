"""Panels: each one a widget with one job, in a package of its own or in `contents`.

What several of them are made of is in `tables`, `plots` and `progress`, and in the modules here.
"""
