"""What Ctrl+K can jump to: names made ready for searching, the search, and what it found."""
