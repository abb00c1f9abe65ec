"""The sections of a report: evidence in, elements out."""
