"""Metrics of a ranking, query by query, and the significance of differences between rankings."""
