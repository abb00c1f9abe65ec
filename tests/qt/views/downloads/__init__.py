"""Tests of the panel of downloaded models."""
