"""Panels: each one a widget with one job."""
