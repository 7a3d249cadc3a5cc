"""Score documents with a model that rankwright saved; NumPy is all it needs."""

from rankwright_scorer.model import Model, Ranking, load

__all__ = ["Model", "Ranking", "load"]
