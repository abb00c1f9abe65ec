"""What the page of what-ifs asks, measures and lists."""
