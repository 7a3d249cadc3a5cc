"""Ranking data: what it is (`dataset`), how it is read and written, generated and split."""

from typing import TYPE_CHECKING

from rankwright._lazy import lazy_names

if TYPE_CHECKING:
    from rankwright.data.dataset import RankingData
    from rankwright.data.queries import Queries

__all__ = ["Queries", "RankingData"]

__getattr__, __dir__ = lazy_names(__name__, {"dataset": ("RankingData",), "queries": ("Queries",)})
