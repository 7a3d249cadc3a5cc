"""Diagnostics of objectives and models: incoherent gradients, directness, noise of estimates, gaps and changes.

Examples
--------
>>> from rankwright import gradients
>>> from rankwright_lab import diagnostics
>>> scores, labels = [0.04, 0.03, 0.02, 0.01, 0], [1, 2, 0, 0, 0]
>>> for options in ({}, {"extend": "static"}):        # LambdaMART for NDCG@1, without and with Lambda-eX
...     grad, _ = gradients("lambdamart", scores, labels, group=[5], metric="ndcg@1", truncation=1, **options)
...     print(diagnostics.incoherency(scores, labels, grad, group=[5], k=1))
100.0 % of 1 queries have incoherent pairs, 100.0 % harmful ones at 1
0.0 % of 1 queries have incoherent pairs, 0.0 % harmful ones at 1
"""

from rankwright_lab.diagnostics.coherency import (
    Incoherency,
    IncoherencyCurve,
    IncoherentPair,
    incoherency,
    incoherency_curve,
    incoherent_pairs,
)
from rankwright_lab.diagnostics.diagnosis import Diagnosis, diagnose
from rankwright_lab.diagnostics.directness_bound import SoftRankBound, softrank_bound
from rankwright_lab.diagnostics.directness_by_sigma import (
    DirectnessCurve,
    DirectnessPoint,
    directness_curve,
)
from rankwright_lab.diagnostics.directness_gap import (
    Directness,
    DirectnessPair,
    directness,
    directness_pair,
)
from rankwright_lab.diagnostics.noise import ESTIMATORS, Estimator, Estimators, estimators

__all__ = [
    "ESTIMATORS",
    "Diagnosis",
    "Directness",
    "DirectnessCurve",
    "DirectnessPair",
    "DirectnessPoint",
    "Estimator",
    "Estimators",
    "Incoherency",
    "IncoherencyCurve",
    "IncoherentPair",
    "SoftRankBound",
    "diagnose",
    "directness",
    "directness_curve",
    "directness_pair",
    "estimators",
    "incoherency",
    "incoherency_curve",
    "incoherent_pairs",
    "softrank_bound",
]
