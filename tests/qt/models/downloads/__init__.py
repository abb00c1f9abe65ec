"""Tests of what the panel of downloaded models lists."""
