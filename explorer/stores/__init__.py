"""Where downloaded models lie on disk."""
