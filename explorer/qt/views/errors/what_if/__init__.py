"""What-ifs, as a page of the errors panel."""
