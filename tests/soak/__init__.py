"""Campaigns that run as long as one likes: mutated files, and a monkey at the window."""
