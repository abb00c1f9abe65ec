"""What the panel of downloaded models lists: rows made in workers, models that show them."""
