"""Proposals of a shell for an option: names of objectives, metrics and export targets."""

from __future__ import annotations


def objectives(incomplete: str) -> list[str]:
    """Return the objectives that begin so; in a sum, the last objective is completed."""
    from rankwright.objectives import known_objectives

    return completed(incomplete, ["auto", *known_objectives()])


def metrics(incomplete: str) -> list[str]:
    """Return the metrics that begin so; in a list, the last metric is completed."""
    from rankwright.metrics import known_metrics

    return completed(incomplete, list(known_metrics()))


def targets(incomplete: str) -> list[str]:
    """Return the export targets that begin so."""
    from rankwright.exporting import TARGETS

    return completed(incomplete, list(TARGETS))


def completed(incomplete: str, names: list[str]) -> list[str]:
    """Complete the last word.

    Examples
    --------
    >>> completed("map nd", ["map", "ndcg", "ndcg2"])
    ['map ndcg', 'map ndcg2']
    """
    # The shell replaces the whole word, so proposals repeat the text before the last name.
    before, space, last = incomplete.rpartition(" ")
    return [f"{before}{space}{name}" for name in names if name.startswith(last)]
