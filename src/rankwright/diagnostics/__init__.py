"""Diagnostics of objectives and models: incoherent gradients, directness, noise of estimates, gaps and changes.

Examples
--------
>>> from rankwright import diagnostics, gradients
>>> scores, labels = [0.04, 0.03, 0.02, 0.01, 0], [1, 2, 0, 0, 0]
>>> for options in ({}, {"extend": "static"}):        # LambdaMART for NDCG@1, without and with Lambda-eX
...     grad, _ = gradients("lambdamart", scores, labels, group=[5], metric="ndcg@1", truncation=1, **options)
...     print(diagnostics.incoherency(scores, labels, grad, group=[5], k=1))
100.0 % of 1 queries have incoherent pairs, 100.0 % harmful ones at 1
0.0 % of 1 queries have incoherent pairs, 0.0 % harmful ones at 1
"""

from rankwright.diagnostics.changes import (
    GapCurve,
    GapPoint,
    QueryChanges,
    Share,
    generalisation_gap,
    query_changes,
)
from rankwright.diagnostics.coherency import (
    Incoherency,
    IncoherencyCurve,
    IncoherentPair,
    incoherency,
    incoherency_curve,
    incoherent_pairs,
)
from rankwright.diagnostics.diagnosis import Diagnosis, diagnose
from rankwright.diagnostics.directness_bound import SoftRankBound, softrank_bound
from rankwright.diagnostics.directness_by_sigma import (
    DirectnessCurve,
    DirectnessPoint,
    directness_curve,
)
from rankwright.diagnostics.directness_gap import (
    Directness,
    DirectnessPair,
    directness,
    directness_pair,
)
from rankwright.diagnostics.noise import ESTIMATORS, Estimator, Estimators, estimators

__all__ = [
    "ESTIMATORS",
    "Diagnosis",
    "Directness",
    "DirectnessCurve",
    "DirectnessPair",
    "DirectnessPoint",
    "Estimator",
    "Estimators",
    "GapCurve",
    "GapPoint",
    "Incoherency",
    "IncoherencyCurve",
    "IncoherentPair",
    "QueryChanges",
    "Share",
    "SoftRankBound",
    "diagnose",
    "directness",
    "directness_curve",
    "directness_pair",
    "estimators",
    "generalisation_gap",
    "incoherency",
    "incoherency_curve",
    "incoherent_pairs",
    "query_changes",
    "softrank_bound",
]
