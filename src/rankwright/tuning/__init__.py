"""Hyper-parameter search: the space (`space`), the study in a file (`study`), its trials and result, and the search."""

from typing import TYPE_CHECKING

from rankwright._lazy import lazy_names

if TYPE_CHECKING:
    from rankwright.support.ranges import Choice, Range
    from rankwright.tuning.result import Tuning
    from rankwright.tuning.search import tune, tune_system
    from rankwright.tuning.space import search_space

__all__ = ["Choice", "Range", "Tuning", "search_space", "tune", "tune_system"]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "result": ("Tuning",),
        "search": ("tune", "tune_system"),
        "space": ("Choice", "Range", "search_space"),
    },
)
