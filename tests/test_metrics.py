"""Metrics: hand-worked values, the definition over all orders of ties, text form, and one of a user's own."""

from __future__ import annotations

import itertools
import math
import pickle
import re
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

import oracles
from rankwright.evaluation.per_query import evaluate
from rankwright.metrics import (
    ARP,
    DCGRR,
    ERR,
    MAP,
    MRR,
    NDCG,
    RBP,
    ExpDCG,
    Metric,
    PFound,
    known_metrics,
    metric,
)

POLICIES = ["worst", "best", "expected", "input"]
OWN = {
    name: kind
    for name, kind in known_metrics().items()
    if kind.__module__ == "rankwright.metrics.definitions"
}
KINDS = {name: kind for name, kind in OWN.items() if not kind.selects}

OPTIONS = {  # values to try, for metrics that have options
    "ndcg": {"gain": ["exponential", "linear"], "discount": ["log2", "reciprocal"]},
    "dcg": {"gain": ["exponential", "linear"], "discount": ["log2", "reciprocal"]},
    "err": {"gain": ["exponential", "linear"], "max_label": [4, 5.5]},
    "pfound": {"decay": [0.85, 0.3], "max_label": [4, 6]},
    "mrr": {"threshold": [1, 2.5]},
    "map": {"threshold": [1, 2.5], "divisor": ["relevant", "attainable"]},
    "rbp": {"threshold": [1, 2.5], "p": [0.8, 0.25]},
    "precision": {"threshold": [1, 0.5]},
    "recall": {"threshold": [1, 2.5]},
    "success": {"threshold": [1, 2.5]},
    "expdcg": {"decay": [0.85, 0.5]},
}
CASES = [
    (name, dict(zip(choices, chosen, strict=True)))
    for name, choices in ((name, OPTIONS.get(name, {})) for name in KINDS)
    for chosen in itertools.product(*choices.values())
]
CUTOFFS = [None, 1, 2, 4, 9]


def small_queries():
    """Queries of up to 7 documents, most of them with ties, as (scores, labels)."""
    rng = np.random.default_rng(7)
    queries = [
        ([0.5] * 7, [0, 3, 1, 0, 2, 4, 1]),
        ([0.0, -0.0, 1e-300, -1e-300, 0.0], [1, 3, 0, 2, 0]),
        ([math.inf, -math.inf, math.inf, 1e308, -math.inf], [0, 1, 4, 0, 2]),
        ([1, 1, 2], [0, 0, 0]),
        ([3], [2]),
    ]
    for k in range(40):
        n = int(rng.integers(2, 7))
        labels = rng.integers(0, 5, n) if k % 2 else np.round(rng.uniform(0, 4, n), 3)
        queries.append((rng.integers(0, 3, n).astype(float).tolist(), labels.tolist()))
    return queries


QUERIES = small_queries()
SCORES, LABELS = (
    np.concatenate([query[part] for query in QUERIES]).astype(float) for part in (0, 1)
)
SIZES = [len(scores) for scores, _ in QUERIES]
ORDERED = [
    [[labels[a] for a in order] for order in oracles.orders(scores)] for scores, labels in QUERIES
]


@pytest.mark.parametrize(("name", "options"), CASES)
def test_equals_the_definition_over_all_orders_of_ties(name, options):
    expected = {}
    for at in CUTOFFS:
        of_query = [
            oracles.by_policy(
                [oracles.metric_value(name, labels, at, **options) for labels in orders],
                lower_is_better=name == "arp",
            )
            for orders in ORDERED
        ]
        expected[at] = {ties: [values[ties] for values in of_query] for ties in POLICIES}
    metrics = {at: KINDS[name](at=at, **options) for at in CUTOFFS}
    for ties in POLICIES:
        result = evaluate(
            SCORES, LABELS, group=SIZES, metrics=list(metrics.values()), ties=ties, empty="zero"
        )
        for at, one in metrics.items():
            np.testing.assert_allclose(
                result.per_query[str(one)],
                expected[at][ties],
                rtol=1e-12,
                atol=1e-12,
                err_msg=f"{one} {ties}",
            )


LOG3, LOG5 = math.log2(3), math.log2(5)
WORKED = {  # for the labels 1, 0, 3, 2 from the first position to the last
    "dcg": 1 + 7 / 2 + 3 / LOG5,
    "dcg@3": 1 + 7 / 2,
    "dcg(gain=linear)": 1 + 3 / 2 + 2 / LOG5,
    "dcg(discount=reciprocal)@3": 1 + 7 / 3,
    "ndcg": (1 + 7 / 2 + 3 / LOG5) / (7 + 3 / LOG3 + 1 / 2),
    "ndcg@2": 1 / (7 + 3 / LOG3),
    "ndcg(gain=linear,discount=reciprocal)@3": (1 + 3 / 3) / (3 + 2 / 2 + 1 / 3),
    "err": 1 / 16 + 15 / 16 * 7 / 16 / 3 + 15 / 16 * 9 / 16 * 3 / 16 / 4,
    "err@2": 1 / 16,
    "err(max_label=3)@3": 1 / 8 + 7 / 8 * 7 / 8 / 3,
    "err(gain=linear)": 1 / 4 + 3 / 4 * 3 / 4 / 3 + 3 / 4 * 1 / 4 * 2 / 4 / 4,
    "mrr": 1,
    "mrr(threshold=2)": 1 / 3,
    "mrr(threshold=2)@2": 0,
    "map": (1 / 1 + 2 / 3 + 3 / 4) / 3,
    "map@2": 1 / 3,
    "map(divisor=attainable)@2": 1 / 2,
    "map(threshold=2)": (1 / 3 + 2 / 4) / 2,
    "rbp": (1 - 0.8) * (1 + 0.8**2 + 0.8**3),
    "rbp(p=0.5)@3": 1 / 2 + 1 / 8,
    "pfound": 1 / 4 + 0.85**2 * 3 / 4 * 3 / 4 + 0.85**3 * 3 / 4 * 1 / 4 * 2 / 4,
    "pfound(decay=0.5,max_label=3)@3": 1 / 3 + 1 / 4 * 2 / 3 * 3 / 3,
    "expdcg": 1 + 3 * 0.85**2 + 2 * 0.85**3,
    "expdcg(decay=0.5)@3": 1 + 3 / 4,
    "precision": 3 / 4,
    "precision@2": 1 / 2,
    "precision(threshold=2)@10": 2 / 10,
    "recall@3": 2 / 3,
    "recall(threshold=3)@2": 0,
    "success(threshold=2)@2": 0,
    "success(threshold=2)@3": 1,
    "arp": (1 * 1 + 3 * 3 + 4 * 2) / 6,
    "arp@2": (1 * 1 + 3 * 3 + 3 * 2) / 6,
    "dcg-rr": 1 / 1 + 3 / 3 + 2 / 4,
    "dcg-rr@3": 1 / 1 + 3 / 3,
    "judged@2": 1,
}


@pytest.mark.parametrize("text", WORKED)
def test_hand_worked_values(text):
    assert metric(text).of([0.4, 0.3, 0.2, 0.1], [1, 0, 3, 2]) == pytest.approx(
        WORKED[text], rel=1e-14, abs=0
    )


@pytest.mark.parametrize("name", OWN)
def test_every_metric_is_worked_by_hand(name):
    assert any(re.split(r"[@(]", text)[0] == name for text in WORKED)


@pytest.mark.parametrize("at", [None, 1, 2, 5])
def test_dcg_rr_selects_positive_scores_in_input_order(at):
    rng = np.random.default_rng(3)
    for n in range(1, 9):
        scores, labels = rng.integers(-1, 3, n), rng.uniform(0.1, 4, n)
        shown = oracles.selected_value(scores, labels, at)
        for ties in POLICIES:
            assert DCGRR(at=at).of(scores, labels, ties=ties) == pytest.approx(shown, rel=1e-14)


def test_arp_with_a_cutoff_does_not_reward_burying_the_relevant():
    assert ARP(at=2).of([3, 2, 1], [0, 0, 1]) == 3 > ARP(at=2).of([3, 2, 1], [1, 0, 0])
    assert not ARP.higher_is_better
    assert all(kind.higher_is_better for kind in KINDS.values() if kind is not ARP)


ALL = [KINDS[name](at=at, **options) for name, options in CASES for at in CUTOFFS]
ALL += [
    DCGRR(),
    DCGRR(at=3),
    RBP(p=1e-7),
    RBP(p=1 / 3, threshold=1e-300),
    MRR(threshold=2.0),
    ERR(at=10**12),
]


@pytest.mark.parametrize("one", ALL, ids=str)
def test_text_form_reads_back(one):
    again = metric(str(one))
    assert again == one
    assert hash(again) == hash(one)
    assert pickle.loads(pickle.dumps(one)) == one
    assert metric(one) is one


def test_different_metrics_have_different_texts():
    assert len({str(one) for one in ALL}) == len(set(ALL)) == len(ALL)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("ndcg@10", NDCG(at=10)),
        ("err(gain=linear)@5", ERR(gain="linear", at=5)),
        ("rbp(p=0.8)", RBP()),
        (
            "  NDCG ( gain = linear , discount=reciprocal ) @ 3 ",
            NDCG(gain="linear", discount="reciprocal", at=3),
        ),
        ("pfound()", PFound()),
        ("map(threshold=2.0)", MAP(threshold=2)),
        ("dcg-rr@2", DCGRR(at=2)),
        ("expdcg(decay=5e-1)", ExpDCG(decay=0.5)),
    ],
)
def test_reading(text, meant):
    assert metric(text) == meant


def test_options_at_their_default_are_not_written():
    assert str(NDCG(at=10, gain="exponential")) == "ndcg@10"
    assert str(RBP(p=0.5, threshold=2.0, at=np.int64(7))) == "rbp(threshold=2,p=0.5)@7"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ngcd@10", r"unknown metric 'ngcd@10'; did you mean 'ndcg@10'\? Known: arp, .*ndcg"),
        ("ar(gain=linear)@3", r"did you mean 'arp\(gain=linear\)@3'\?"),
        ("precison@5", r"did you mean 'precision@5'\?"),
        ("qqqq", r"unknown metric 'qqqq'. Known: "),
        ("", "'' is not a metric: expected a name, found its end; write it like 'ndcg@10'"),
        ("ndcg@", "'ndcg@' is not a metric"),
        ("ndcg@-1", "is not a metric"),
        ("ndcg@1.5", "is not a metric"),
        ("ndcg@10(gain=linear)", "is not a metric"),
        ("ndcg@0", "cutoff of ndcg must be a whole number from 1; got 0"),
        (
            "ndcg(gains=linear)",
            r"ndcg has no option 'gains'; did you mean 'gain'\? Its options: gain, discount",
        ),
        ("ndcg(at=3)", "ndcg has no option 'at'"),
        ("ndcg(linear)", r"option 'linear' of ndcg has no value; write ndcg\(option=value\)"),
        ("arp(p=1)", "arp has no option 'p'. Its options: none"),
        ("ndcg(gain=square)", "ndcg has no gain='square'; choose one of exponential, linear"),
        ("dcg(discount=log)", "dcg has no discount='log'; choose one of log2, reciprocal"),
        ("err(gain=)", "err has no gain=''"),
        ("map(divisor=all)", "choose one of relevant, attainable"),
        ("rbp(p=0.5,p=0.6)", "rbp has the option p twice; give it once"),
        ("rbp(p=1)", "rbp needs p strictly between 0 and 1; got 1"),
        ("rbp(p=0)", "strictly between 0 and 1"),
        ("rbp(p=high)", "got 'high'"),
        ("rbp(p=nan)", "got nan"),
        ("expdcg(decay=1)", "expdcg needs decay strictly between 0 and 1"),
        ("pfound(decay=-0.1)", "pfound needs decay strictly between 0 and 1"),
        ("pfound(max_label=0)", "pfound needs max_label strictly between 0 and 1024"),
        ("err(max_label=1024)", "strictly between 0 and 1024; got 1024"),
        ("mrr(threshold=0)", "mrr needs threshold strictly between 0 and inf"),
        ("mrr(threshold=inf)", "threshold strictly between 0 and inf"),
    ],
)
def test_bad_texts_say_what_is_wrong(text, message):
    with pytest.raises(ValueError, match=message):
        metric(text)


@pytest.mark.parametrize("at", [0, -3, 2.0, "5", True, math.nan])
def test_bad_cutoffs(at):
    with pytest.raises(
        ValueError, match=f"cutoff of ndcg must be a whole number from 1; got {at!r}"
    ):
        NDCG(at=at)


@pytest.mark.parametrize(
    ("one", "labels", "message"),
    [
        (
            ERR(),
            [0, 5],
            r"err reads labels up to 4 as probabilities, but there is a label 5; use err\(max_label=5\)",
        ),
        (PFound(max_label=1), [0, 2.5], r"use pfound\(max_label=2.5\)"),
        (
            NDCG(),
            [0, 1024],
            "ndcg has no finite gain for the label 1024; rescale the labels or use a linear gain",
        ),
        (NDCG(), [1023, 1023, 1023], "ndcg has no finite gain for the label 1023"),
    ],
)
def test_labels_beyond_a_metrics_reach(one, labels, message, recwarn):
    with pytest.raises(ValueError, match=message):
        one.of(range(len(labels)), labels)
    assert not recwarn.list


@dataclass(frozen=True)
class Patience(Metric):
    """The user gives up with probability 1/2 behind a document that is not relevant."""

    name: ClassVar[str] = "patience"
    threshold: float = 1

    def weights(self, n):
        return np.ones(n)

    def gains(self, labels):
        return (labels >= self.threshold).astype(int)

    def continuations(self, labels):
        return np.where(labels >= self.threshold, 1.0, 0.5)


def patience(labels, at):
    total, present = 0.0, 1.0
    for label in labels[:at]:
        total += present * (label >= 1)
        present *= 1 if label >= 1 else 0.5
    return total


@pytest.mark.parametrize("at", [None, 2, 4])
@pytest.mark.parametrize("ties", POLICIES)
def test_a_users_own_metric(at, ties):
    text = "patience" if at is None else f"patience@{at}"
    result = evaluate(SCORES, LABELS, group=SIZES, metrics=[text, "mrr"], ties=ties, empty="zero")
    expected = [
        oracles.by_policy([patience(labels, at) for labels in orders])[ties] for orders in ORDERED
    ]
    np.testing.assert_allclose(result.per_query[text], expected, rtol=1e-12)
    assert metric(text) == Patience(at=at) == pickle.loads(pickle.dumps(Patience(at=at)))


def test_the_own_metric_is_known_and_suggested():
    assert known_metrics()["patience"] is Patience
    with pytest.raises(ValueError, match=r"did you mean 'patience@3'\?"):
        metric("pacience@3")


def test_a_subclass_without_a_name_does_not_take_over_that_of_its_parent():
    @dataclass(frozen=True)
    class Steeper(NDCG):
        def weights(self, n):
            return 0.5 ** np.arange(n)

    assert metric("ndcg") == NDCG() != Steeper()
    assert Steeper().of([2, 1], [0, 1]) == 1 / 2


def own(**methods):
    """Return a metric that counts relevant documents, with some of its methods replaced."""
    body = {"name": "", "weights": lambda self, n: np.ones(n), "gains": lambda self, labels: labels}
    return type("Own", (Metric,), body | methods)()


@pytest.mark.parametrize(
    ("methods", "error", "message"),
    [
        (
            {"weights": Metric.weights},
            TypeError,
            r"Own must define weights\(n\), what each position is worth",
        ),
        (
            {"gains": Metric.gains},
            TypeError,
            r"Own must define gains\(labels\), the gain of each document",
        ),
        (
            {"gains": lambda self, y: y[:1]},
            ValueError,
            r"gains of .* have shape \(1,\) for 3 labels",
        ),
        (
            {"continuations": lambda self, y: y[:2]},
            ValueError,
            r"continuations of .* have shape \(2,\) for 3 labels",
        ),
        (
            {"carries": lambda self, y: y[:, None]},
            ValueError,
            r"carries of .* have shape \(3, 1\) for 3 labels",
        ),
        ({"gains": lambda self, y: y * np.nan}, ValueError, "no finite gain"),
        ({"continuations": lambda self, y: y * np.inf}, ValueError, "no finite gain"),
        (
            {"continuations": lambda self, y: y / 9, "carries": lambda self, y: y},
            ValueError,
            "both continuations and carries; a metric may define one of them",
        ),
    ],
)
def test_a_metric_that_is_not_one(methods, error, message):
    assert own().of([3, 2, 1], [1, 2, 4]) == 1 + 2 + 4
    with pytest.raises(error, match=message):
        own(**methods).of([3, 2, 1], [1, 2, 4])


def test_binding_without_truncation_keeps_the_normaliser_of_the_cutoff():
    labels, bounds = np.array([1.0, 3.0, 0.0, 2.0]), np.array([0, 4])
    cut, full = (NDCG(at=2).bind(labels, bounds, truncate=truncate) for truncate in (True, False))
    assert (
        cut.scale[0] == full.scale[0] == pytest.approx(1 / oracles.ideal_dcg(labels, 2), rel=1e-14)
    )
    discounts = [oracles.discount_of(i) for i in range(1, 5)]
    assert cut.weight == pytest.approx([*discounts[:2], 0, 0, 0, 0], rel=1e-14)
    assert full.weight == pytest.approx([*discounts, 0, 0], rel=1e-14)
    assert (cut.depth, full.depth) == (2, 4)
    assert cut.additive
    assert not MAP().bind(labels, bounds).additive
    assert not ERR().bind(labels, bounds).additive


def test_long_ideal_orders_are_sorted_like_short_ones():
    """Beyond 32 places the ideal order is sorted, below it is kept by insertion."""
    labels = np.random.default_rng(5).integers(0, 5, 80).astype(float)
    for at in (1, 5, 31, 32, 33, 34, 79, 80, 81, None):
        worth = oracles.metric_value("ndcg", labels, at)
        assert NDCG(at=at).of(-np.arange(80), labels) == pytest.approx(worth, rel=1e-13)
        assert NDCG(at=at).of(labels, labels) == pytest.approx(1, rel=1e-14)


def test_a_huge_whole_label_takes_no_table_of_powers():
    with pytest.raises(ValueError, match="has no finite gain for the label 1e\\+12"):
        evaluate([1.0, 2.0], [1e12, 0.0], group=[2], metrics="ndcg")
