"""The what-if page: error against size for every tensor type."""
