"""A small model that the program makes itself, for a first look where nothing is downloaded."""

from explorer.demo.store import DemoPaths, make_demo
from explorer.paths import cache_folder

__all__ = ["DemoPaths", "cache_folder", "make_demo"]
