"""Streams of float32 to evidence: statistics, histograms, errors."""
