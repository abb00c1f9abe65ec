"""A small model that the program makes itself, for a first look where nothing is downloaded."""

from explorer.cache import cache_folder
from explorer.demo.recipe import DemoPaths, make_demo

__all__ = ["DemoPaths", "cache_folder", "make_demo"]
