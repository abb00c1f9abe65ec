"""What the library panel lists: rows made in workers, models that show them."""
