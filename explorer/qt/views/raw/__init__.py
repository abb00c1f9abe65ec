"""The raw view: bytes, and what each of them is."""
