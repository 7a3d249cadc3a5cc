"""A fair comparison of systems: the same folds, number of trees and selection rule for all, and paired tests.

For each fold and seed a system trains on the training queries. The number of trees is chosen on the validation queries
by the target metric, in the same way for every system. The test queries are scored once. Seeds are averaged per query,
the test queries of all folds are pooled, and systems are compared by paired tests over them.
"""

from __future__ import annotations

from rankwright_lab.harness.identity import (
    describe,
    hashes_of,
    identity_of,
    nameless_recipe,
    outcome_key,
    recipe,
)
from rankwright_lab.harness.outcomes import Outcome, OutcomeStore, read_outcomes
from rankwright_lab.harness.running import run_systems, stages_of
from rankwright_lab.harness.systems import (
    Capabilities,
    RankwrightSystem,
    StagedModel,
    System,
    capabilities_of,
    check_installed,
    check_supported,
    fit_whole,
    libraries_of,
)

__all__ = [
    "Capabilities",
    "Outcome",
    "OutcomeStore",
    "RankwrightSystem",
    "StagedModel",
    "System",
    "capabilities_of",
    "check_installed",
    "check_supported",
    "describe",
    "fit_whole",
    "hashes_of",
    "identity_of",
    "libraries_of",
    "nameless_recipe",
    "outcome_key",
    "read_outcomes",
    "recipe",
    "run_systems",
    "stages_of",
]
