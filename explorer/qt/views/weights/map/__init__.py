"""The map of a tensor, as a page of the weights panel."""
