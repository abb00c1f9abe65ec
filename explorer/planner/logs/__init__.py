"""What programs log of memory, and the same beside a plan."""
