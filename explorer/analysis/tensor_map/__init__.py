"""A matrix as a picture of bounded size: what can be drawn of it, and the walk that draws it.

`planes` reads what is drawn, `fold` walks over it, and `picture` is the result. `place` tells
what is under the pointer.
"""
