"""A report on a model as one HTML file: gather data, lay out sections, render the page."""
