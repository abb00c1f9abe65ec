"""The raw panel: a file's bytes, coloured by what they mean."""
