"""Pictures of a report, as SVG elements: shapes by our own numbers, a model's strings as text."""
