"""Tables and lists as every panel shows them: filter, copy, export."""
