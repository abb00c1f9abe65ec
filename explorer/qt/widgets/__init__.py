"""Widgets, item models and plots that several panels share; none of them knows a panel."""
