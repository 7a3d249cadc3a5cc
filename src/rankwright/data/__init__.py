"""Ranking data: the data set itself (`dataset`), its file formats, generated data and folds."""

from typing import TYPE_CHECKING

from rankwright._lazy import lazy_names

if TYPE_CHECKING:
    from rankwright.data.dataset import RankingData
    from rankwright.data.queries import Queries

__all__ = ["Queries", "RankingData"]

__getattr__, __dir__ = lazy_names(__name__, {"dataset": ("RankingData",), "queries": ("Queries",)})
