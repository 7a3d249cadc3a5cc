"""What identifies an outcome, so that it is computed again only if something that affects it has changed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, is_dataclass
from typing import Any
from weakref import WeakKeyDictionary

from rankwright_lab.folds import Fold
from rankwright_lab.harness.systems import RankwrightSystem, System, libraries_of
from rankwright_lab.libraries import RANKWRIGHT

_KEY_FORMAT = "k1"
_hashes: WeakKeyDictionary[Fold, list[str]] = WeakKeyDictionary()
_RECIPE_FORMAT = "v2"  # recipes without it hashed the source text of the defaults


def describe(system: System) -> dict[str, Any]:
    """Return what identifies a system: its parameters, with the defaults of `Ranker`, and versions of libraries.

    Examples
    --------
    >>> describe(RankwrightSystem("few leaves", {"num_leaves": 8}))["parameters"]["num_leaves"]
    8
    """
    parameters: dict[str, Any] = {}
    if isinstance(system, RankwrightSystem):
        from rankwright.ranker import Ranker

        parameters = Ranker(**dict(system.params)).get_params()
    elif is_dataclass(system) and not isinstance(system, type):
        parameters = asdict(system)
    return {"name": system.name, "parameters": parameters, "versions": _versions(system)}


def _versions(system: System) -> dict[str, str]:
    return {library.name: library.version for library in libraries_of(system)}


def _defaults_version(system: System) -> int | None:
    from rankwright.training.defaults import DEFAULTS_VERSION

    return DEFAULTS_VERSION if RANKWRIGHT in libraries_of(system) else None


def recipe(system: System, *, trees: int, every: int, threads: int) -> str:
    """Return a short text that changes with everything that affects an outcome except data, target and seed.

    `DEFAULTS_VERSION` stands for what Ranker chooses where a parameter is ``"auto"`` or None.

    Examples
    --------
    >>> small, large = RankwrightSystem("a", {"num_leaves": 8}), RankwrightSystem("a", {"num_leaves": 31})
    >>> recipe(small, trees=5, every=1, threads=1) == recipe(large, trees=5, every=1, threads=1)
    False
    """
    content = [describe(system), trees, every, threads, _defaults_version(system)]
    return f"{_RECIPE_FORMAT}-{_hash(content)[:16]}"


def identity_of(system: System) -> Any:
    """Return plain values that say what a system trains, without the name that a comparison gives it."""
    if hasattr(system, "identity"):
        return system.identity
    if is_dataclass(system) and not isinstance(system, type):
        return [
            type(system).__name__,
            {name: value for name, value in asdict(system).items() if name != "name"},
        ]
    return system.name


def nameless_recipe(system: System, *, trees: int, every: int, threads: int) -> str:
    """Return a text like `recipe` that does not change with the name of the system.

    Examples
    --------
    >>> systems = [RankwrightSystem("a", {"objective": "yetiloss"}), RankwrightSystem("b", {"objective": "yetiloss()"})]
    >>> first, second = (nameless_recipe(system, trees=5, every=1, threads=1) for system in systems)
    >>> first == second
    True
    """
    return _hash(
        [identity_of(system), _versions(system), _defaults_version(system), trees, every, threads]
    )


def outcome_key(own_recipe: str, data: Sequence[str], target: str, seed: int) -> str:
    """Return a short text that is equal for outcomes of the same training, whatever system and data are called.

    Two experiments that train the same parameters on the same rows can then share an outcome.

    Parameters
    ----------
    own_recipe
        What is trained; see `nameless_recipe`.
    data
        Hashes of the training, validation and test queries; see `hashes_of`.
    target, seed
        The metric, and the seed; 0 where nothing is drawn.
    """
    return f"{_KEY_FORMAT}-{_hash([own_recipe, list(data), target, seed])[:24]}"


def _hash(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()


def hashes_of(fold: Fold) -> list[str]:
    """Return hashes of the training, validation and test queries of a fold; they are computed once for each fold."""
    from rankwright.training.checkpoint import fingerprint

    if fold not in _hashes:
        _hashes[fold] = [fingerprint(part) for part in (fold.train, fold.valid, fold.test)]
    return _hashes[fold]
