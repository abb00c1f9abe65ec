"""Plots that several panels share (pyqtgraph). Import after the first paint: it takes 150 ms."""
