"""Hyper-parameter search: the space (`space`), the study in a file (`study`), its trials and result, and the search."""
