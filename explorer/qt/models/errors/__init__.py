"""What the errors panel shows, and what it compares with."""
