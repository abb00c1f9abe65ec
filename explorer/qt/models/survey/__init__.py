"""What the survey panel shows: every tensor of a model at once."""
