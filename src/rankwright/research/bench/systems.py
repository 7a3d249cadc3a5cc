"""Which systems a benchmark compares: ours and the peers, on the terms of a preset."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rankwright.research.harness import Ours, System
from rankwright.research.peers import peers

PRESETS = ("defaults", "common")
_RATE, _LEAVES, _DEPTH = 0.05, 31, 6


def preset_systems(preset: str = "defaults", extra: Sequence[Ours] = ()) -> list[System]:
    """Ours, untuned, and every peer.

    Parameters
    ----------
    preset
        ``"defaults"``: each library's own defaults, the number of trees apart. ``"common"``: learning rate 0.05 and
        31 leaves, or depth 6 where a library counts in depth; ours is there both untuned and with these.
    extra
        Further systems of ours, between ours and the peers.

    Examples
    --------
    >>> [system.name for system in preset_systems("common")][:3]
    ['rankwright', 'rankwright, 31 leaves', 'lightgbm lambdarank']
    """
    if preset not in PRESETS:
        raise ValueError(f"unknown preset {preset!r}; choose one of {', '.join(PRESETS)}.")
    ours = [Ours("rankwright")]
    params: dict[str, dict[str, Any]] = {}
    if preset == "common":
        ours.append(Ours(f"rankwright, {_LEAVES} leaves", {"learning_rate": _RATE, "num_leaves": _LEAVES}))
        params = {
            "lightgbm": {"learning_rate": _RATE, "num_leaves": _LEAVES},
            "catboost": {"learning_rate": _RATE, "depth": _DEPTH},
            "xgboost": {"learning_rate": _RATE, "max_depth": _DEPTH},
        }
    found: list[System] = [*ours, *extra, *peers(params)]
    names = [system.name for system in found]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise ValueError(f"two systems are called {twice[0]!r}; give the second another name.")
    return found


def choose_systems(systems: Sequence[System], names: Sequence[str]) -> list[System]:
    """Systems by name, or all of a library by its first word, in the order asked for.

    Examples
    --------
    >>> [system.name for system in choose_systems(preset_systems(), ["xgboost rank:map", "lightgbm"])]
    ['xgboost rank:map', 'lightgbm lambdarank', 'lightgbm rank_xendcg']
    """
    chosen: list[System] = []
    for name in names:
        exact = [system for system in systems if system.name == name]
        found = exact or [system for system in systems if system.name.split()[0].rstrip(",") == name]
        if not found:
            known = "; ".join(system.name for system in systems)
            raise ValueError(
                f"no system is called {name!r}; there are: {known}. A library's name stands for all of its."
            )
        chosen += [system for system in found if system not in chosen]
    return chosen
