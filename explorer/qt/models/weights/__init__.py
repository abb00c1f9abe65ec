"""What the weights panel shows of one tensor or several."""
