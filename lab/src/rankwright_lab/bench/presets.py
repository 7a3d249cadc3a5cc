"""Systems of a benchmark: rankwright and its peers, with the parameters of a preset."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rankwright_lab.harness import RankwrightSystem, System
from rankwright_lab.peers import peers

SYSTEM_PRESETS = ("defaults", "common")
_RATE, _LEAVES, _DEPTH = 0.05, 31, 6


def preset_systems(
    preset: str = "defaults", extra: Sequence[RankwrightSystem] = ()
) -> list[System]:
    """Return rankwright, untuned, and every peer.

    Parameters
    ----------
    preset
        ``"defaults"``: each library's own defaults, except the number of trees. ``"common"``: learning rate 0.05 and
        31 leaves, or depth 6 for libraries that limit the depth; rankwright is included both untuned and with these.
    extra
        Further rankwright systems, placed before the peers.

    Examples
    --------
    >>> [system.name for system in preset_systems("common")][:3]
    ['rankwright', 'rankwright, 31 leaves', 'lightgbm lambdarank']
    """
    if preset not in SYSTEM_PRESETS:
        raise ValueError(f"unknown preset {preset!r}; choose one of {', '.join(SYSTEM_PRESETS)}.")
    own = [RankwrightSystem("rankwright")]
    params: dict[str, dict[str, Any]] = {}
    if preset == "common":
        own.append(
            RankwrightSystem(
                f"rankwright, {_LEAVES} leaves", {"learning_rate": _RATE, "num_leaves": _LEAVES}
            )
        )
        params = {
            "lightgbm": {"learning_rate": _RATE, "num_leaves": _LEAVES},
            "catboost": {"learning_rate": _RATE, "depth": _DEPTH},
            "xgboost": {"learning_rate": _RATE, "max_depth": _DEPTH},
        }
    systems: list[System] = [*own, *extra, *peers(params)]
    names = [system.name for system in systems]
    repeated = [name for name in names if names.count(name) > 1]
    if repeated:
        raise ValueError(
            f"two systems have the name {repeated[0]!r}; give the second another name."
        )
    return systems


def choose_systems(systems: Sequence[System], names: Sequence[str]) -> list[System]:
    """Return systems by name, or all systems of a library by its name, in the given order.

    Examples
    --------
    >>> [system.name for system in choose_systems(preset_systems(), ["xgboost rank:map", "lightgbm"])]
    ['xgboost rank:map', 'lightgbm lambdarank', 'lightgbm rank_xendcg']
    """
    chosen: list[System] = []
    for name in names:
        exact = [system for system in systems if system.name == name]
        matches = exact or [
            system for system in systems if system.name.split()[0].rstrip(",") == name
        ]
        if not matches:
            known = "; ".join(system.name for system in systems)
            raise ValueError(
                f"unknown system {name!r}; known systems: {known}. A library's name selects all of its systems."
            )
        chosen += [system for system in matches if system not in chosen]
    return chosen
