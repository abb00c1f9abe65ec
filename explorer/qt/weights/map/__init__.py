"""The tensor map: a tensor as a picture, down to single weights."""
