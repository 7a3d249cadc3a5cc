"""Ranking data: the data set itself (`dataset`), its file formats, generated data and folds."""
