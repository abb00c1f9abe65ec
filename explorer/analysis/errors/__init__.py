"""Errors of a tensor against a reference: exact metrics and pictures from one walk over both."""
