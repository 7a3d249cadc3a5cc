"""Engines grow trees from gradients, as `contract` describes. Their libraries are imported when they are used."""

from __future__ import annotations

import importlib

from rankwright.engines.contract import Engine

ENGINES = {"lightgbm": "rankwright.engines.lightgbm", "xgboost": "rankwright.engines.xgboost"}


def load_engine(name: str) -> Engine:
    """Return an engine by its name."""
    if not isinstance(name, str) or name not in ENGINES:
        raise ValueError(f"unknown engine {name!r}; choose one of {', '.join(ENGINES)}.")
    engine: Engine = importlib.import_module(ENGINES[name]).ENGINE
    return engine
