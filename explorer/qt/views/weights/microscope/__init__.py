"""The block microscope, as a page of the weights panel."""
