"""The guide and the lists of keys that the menu Help shows."""
