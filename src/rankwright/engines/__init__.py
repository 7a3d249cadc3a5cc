"""Engines grow trees from gradients. The only place where their libraries are imported, and only on use."""

from __future__ import annotations

import importlib
from typing import Any

ENGINES = {"lightgbm": "rankwright.engines.lightgbm"}


def load_engine(name: str) -> Any:
    """Import the module of an engine: it has `Grower`, `Forest`, `join_texts` and `check_params`."""
    if name not in ENGINES:
        raise ValueError(f"unknown engine {name!r}; choose one of {', '.join(ENGINES)}.")
    return importlib.import_module(ENGINES[name])
