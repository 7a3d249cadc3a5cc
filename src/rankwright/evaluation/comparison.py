"""Comparison of rankers with a baseline, query by query, as a table with significance tests."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from rankwright.data.dataset import RankingData
from rankwright.evaluation import pairing, significance
from rankwright.evaluation.pairing import PerQueryValues
from rankwright.evaluation.per_query import evaluate_data
from rankwright.evaluation.significance import Floats
from rankwright.evaluation.systems import System, check_data, system_names
from rankwright.support import checks
from rankwright.support.tables import Cell, Table, Tabular, columns_of, interval_text, p_text

_TESTS = {
    "fisher": "Fisher's randomisation test",
    "t": "Student's t test",
    "wilcoxon": "Wilcoxon's signed-rank test",
}


@dataclass(frozen=True)
class PairedResult:
    """One system compared with the baseline by one metric: a row of a `Comparison`.

    Attributes
    ----------
    metric, system : str
        Text of the metric and name of the system.
    baseline_mean, system_mean : float
        Means over the compared queries; weighted, like `difference`, if queries have weights.
    difference : float
        Mean of system - baseline.
    effect_size : float
        Cohen's d of the paired differences: their mean over their standard deviation (with
        n - 1). Infinite if all differences are equal, 0 if all are 0.
    low, high : float
        Bootstrap percentile interval of `difference`.
    wins, ties, losses : int
        Queries for which the system's value is larger, the same (up to 1e-12) and smaller. Larger
        counts as a win for every metric, even if lower is better.
    n_queries : int
        Number of compared queries.
    p_fisher, p_t, p_wilcoxon : float
        Two-sided p-values. The last two are NaN if queries have weights.
    p, p_adjusted : float
        p-value of the chosen test, before and after Holm's correction over the systems.
    significant : bool
        Whether `p_adjusted` is at most 1 - confidence.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> same = {"query_ids": np.arange(3), "weights": None, "ties": "mean", "empty": "skip"}
    >>> a = SimpleNamespace(per_query={"rr": np.array([0.5, 0.5, 0.25])}, **same)
    >>> b = SimpleNamespace(per_query={"rr": np.array([1.0, 1.0, 0.25])}, **same)
    >>> row = compare(a, b).rows[0]
    >>> row.wins, row.ties, row.losses, row.p_fisher
    (2, 1, 0, 0.5)
    """

    metric: str
    system: str
    baseline_mean: float
    system_mean: float
    difference: float
    effect_size: float
    low: float
    high: float
    wins: int
    ties: int
    losses: int
    n_queries: int
    p_fisher: float
    p_t: float
    p_wilcoxon: float
    p: float
    p_adjusted: float
    significant: bool


@dataclass(frozen=True)
class Comparison(Tabular):
    """Systems compared with a baseline, as returned by `compare`; printing it shows a table.

    Attributes
    ----------
    rows : tuple of PairedResult
        One row per metric and system, all systems of a metric together.
    baseline : str
        Name of the system the others are compared with.
    test, permutations, resamples, confidence, seed
        The arguments of `compare`.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> same = {"query_ids": np.arange(3), "weights": None, "ties": "mean", "empty": "skip"}
    >>> a = SimpleNamespace(per_query={"rr": np.array([0.5, 0.5, 0.25])}, **same)
    >>> b = SimpleNamespace(per_query={"rr": np.array([1.0, 1.0, 0.25])}, **same)
    >>> compare(a, b, names=["first", "second"]).to_dict()["rows"][0]["system"]
    'second'
    """

    rows: tuple[PairedResult, ...]
    baseline: str
    test: str
    permutations: int
    resamples: int
    confidence: float
    seed: int

    def to_latex(self) -> str:
        """Return the table for LaTeX's booktabs, with the footnotes as comments below it."""
        table = self._table()
        lines = [
            rf"\begin{{tabular}}{{ll{'r' * (len(table.columns) - 2)}}}",
            r"\toprule",
            " & ".join(map(_latex_text, table.columns)) + r" \\",
            r"\midrule",
        ]
        for texts in table.texts():
            # The first two columns are text; signs of numbers need the math mode.
            cells = [*map(_latex_text, texts[:2]), *map(_latex_number, texts[2:])]
            lines.append(" & ".join(cells) + r" \\")
        lines += [r"\bottomrule", r"\end{tabular}"]
        lines += [f"% {remark}" for remark in table.note.splitlines()]
        return "\n".join(lines)

    def _columns(self) -> dict[str, Any]:
        """Return a row per metric and system, with the attributes of `PairedResult`."""
        return columns_of([vars(row) for row in self.rows])

    def to_dict(self) -> dict[str, Any]:
        """Return the attributes, with each row as a dictionary."""
        return asdict(self)

    @property
    def _corrected(self) -> bool:
        return len({row.system for row in self.rows}) > 1

    def _table(self) -> Table:
        header = ["metric", "system", "baseline", "mean", "difference"]
        header += [f"{100 * self.confidence:g}% interval", "effect", "win/tie/loss", "p"]
        if self._corrected:
            header.append("p (Holm)")
        rows: list[list[Cell]] = []
        for row in self.rows:
            cells = [
                row.metric,
                row.system,
                f"{row.baseline_mean:.4f}",
                f"{row.system_mean:.4f}",
                f"{row.difference:+.4f}",
                interval_text(row.low, row.high, "+"),
                f"{row.effect_size:+.3f}",
                f"{row.wins}/{row.ties}/{row.losses}",
                p_text(row.p),
            ]
            if self._corrected:
                cells.append(p_text(row.p_adjusted))
            # A blank takes the place of the star, so that the digits are below each other.
            cells[-1] += "*" if row.significant else " "
            rows.append([*cells])
        return Table("", header, rows, self._note())

    def _note(self) -> str:
        sizes = [row.n_queries for row in self.rows]
        n = f"{min(sizes)}"
        if max(sizes) > min(sizes):
            n += f" to {max(sizes)}"
        correction = ""
        if self._corrected:
            correction = ", Holm's correction over the systems"
        return (
            f"Baseline: {self.baseline}; n = {n} queries; effect: Cohen's d of the differences.\n"
            f"* p <= {_level(self.confidence):g}: {_TESTS[self.test]}, two-sided{correction}."
        )


def compare(
    a: PerQueryValues | System,
    b: PerQueryValues | System,
    *others: PerQueryValues | System,
    data: RankingData | None = None,
    metrics: str | Iterable[object] | None = None,
    test: str = "fisher",
    names: Sequence[str] | None = None,
    permutations: int = 100_000,
    resamples: int = 10_000,
    confidence: float = 0.95,
    random_state: int = 0,
) -> Comparison:
    """Compare systems with a baseline, query by query.

    All evaluations must be of the same queries, in any order, with the same policies for ties and
    empty queries and the same weights. Queries without a value are left out.

    If queries have weights, means, effect sizes and intervals are weighted, the bootstrap draws
    queries with equal probability and takes their weighted mean, Fisher's test is about the weighted
    mean, and queries of weight 0 are left out. The other two tests have no weighted form here: their
    p-values are NaN, and choosing one of them is an error.

    Parameters
    ----------
    a : Evaluation or system
        The baseline: an evaluation, any object with the attributes of `PerQueryValues`, or with ``data`` a trained
        `Ranker` or a system such as ``rw.column("bm25")``.
    b, *others : Evaluation or system
        The systems to compare with it.
    data : RankingData, optional
        Data on which rankers and systems are evaluated.
    metrics : str or iterable, optional
        Metrics to compare, as text or metric objects; by default all that the evaluations share, or ``ndcg@10`` with
        ``data``.
    test : {"fisher", "t", "wilcoxon"}
        Which test decides on significance. All three are in the result.
    names : sequence of str, optional
        Names of the systems, the baseline first.
    permutations : int
        Sign flips sampled by Fisher's test if more than 20 queries differ; otherwise all flips
        are enumerated and the p-value is exact. The sampled p-value depends neither on the
        order of the queries nor on which of the two systems is the baseline.
    resamples : int
        Bootstrap resamples of the interval.
    confidence : float
        Level of the interval; 1 - confidence is the level of the test.
    seed : int
        Seed of the permutations and resamples. Each system has its own streams, shared by all
        metrics, so that adding a metric or a system changes no other `p`.

    Returns
    -------
    Comparison
        A row for each metric and system.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> def evaluation(*values):
    ...     return SimpleNamespace(per_query={"ndcg@10": np.array(values)}, weights=None,
    ...                            query_ids=np.arange(7), ties="mean", empty="skip")
    >>> bm25 = evaluation(0.3, 0.5, 0.4, 0.2, 0.6, 0.1, 0.5)
    >>> ranker = evaluation(0.4, 0.7, 0.4, 0.5, 0.7, 0.3, 0.9)
    >>> print(compare(bm25, ranker, names=["bm25", "ranker"]))
    metric   system  baseline    mean  difference        95% interval  effect  win/tie/loss        p
    ndcg@10  ranker    0.3714  0.5571     +0.1857  [+0.1000, +0.2857]  +1.381         6/1/0  0.0312*
    Baseline: bm25; n = 7 queries; effect: Cohen's d of the differences.
    * p <= 0.05: Fisher's randomisation test, two-sided.

    With ``data``, systems are evaluated here:

    >>> import rankwright as rw
    >>> test = rw.make_web_search(40, kind="short", random_state=1)
    >>> first, second = test.feature_names[:2]
    >>> comparison = compare(rw.column(first), rw.rrf(first, second), data=test)
    >>> comparison.baseline == f"column:{first}"
    True
    """
    checks.choice("test", test, _TESTS)
    checks.fraction("confidence", confidence)
    checks.whole("permutations", permutations, least=1)
    checks.whole("resamples", resamples, least=1)
    checks.whole("random_state", random_state, least=0)
    wanted = metrics
    if data is not None:
        check_data(data)
        metrics = None  # the evaluations that are made here have the wanted ones
        if names is None:
            names = system_names([a, b, *others])
    systems = [_evaluation(system, data, wanted) for system in (a, b, *others)]
    names = _system_names(names, len(systems))
    pairing.check_policies(systems, names)
    # Positions of the baseline's queries in each evaluation.
    positions = [
        pairing.query_positions(systems[0], system, name)
        for system, name in zip(systems, names, strict=True)
    ]
    weights = pairing.shared_weights(systems, positions, names)
    if weights is not None and test != "fisher":
        raise ValueError(
            f"test={test!r} has no weighted form, but the evaluations have query weights. "
            "Use test='fisher', or evaluate without weights."
        )

    # A comparison without rows holds the settings while the rows are computed.
    settings = Comparison((), names[0], test, permutations, resamples, confidence, random_state)
    rows: list[PairedResult] = []
    for metric in pairing.shared_metrics(systems, names, metrics):
        values = [
            np.asarray(system.per_query[metric], dtype=np.float64)[position]
            for system, position in zip(systems, positions, strict=True)
        ]
        compared = pairing.compared_queries(values, weights, names, metric, systems[0].query_ids)
        query_weight = None if weights is None else weights[compared]
        baseline = values[0][compared]
        pairs = []
        for number in range(1, len(systems)):
            system = values[number][compared]
            pairs.append(
                _paired_result(settings, metric, names, number, baseline, system, query_weight)
            )
        adjusted = significance.holm([pair.p for pair in pairs])
        rows += [
            replace(pair, p_adjusted=p, significant=p <= _level(confidence))
            for pair, p in zip(pairs, adjusted, strict=True)
        ]
    return replace(settings, rows=tuple(rows))


def _evaluation(
    system: PerQueryValues | System, data: RankingData | None, metrics: Any
) -> PerQueryValues:
    """Evaluate a system on the data; an evaluation is returned as it is."""
    if not isinstance(system, System) and hasattr(system, "per_query"):
        return system
    if not isinstance(system, System) or data is None:
        raise ValueError(
            f"compare takes evaluations, as rw.evaluate returns them, and got a {type(system).__name__}; "
            "rankers and systems also need data=."
        )
    result = evaluate_data(system.predict(data), data, metrics or "ndcg@10")
    return replace(result, query_ids=data.query_ids)


def _paired_result(
    settings: Comparison,
    metric: str,
    names: Sequence[str],
    number: int,
    baseline: Floats,
    system: Floats,
    query_weight: Floats | None,
) -> PairedResult:
    """Return the row of one system by one metric, before Holm's correction."""
    difference = system - baseline
    # Rounding errors would count as wins and losses.
    difference[np.abs(difference) <= significance.ROUNDING] = 0.0
    key = (settings.seed, number)
    p_values = {"fisher": significance.fisher(difference, query_weight, settings.permutations, key)}
    if query_weight is None:
        p_values |= {
            "t": significance.student(difference),
            "wilcoxon": significance.wilcoxon(difference, key),
        }
    else:
        # The other two tests have no weighted form.
        p_values |= {"t": np.nan, "wilcoxon": np.nan}
    p = p_values[settings.test]
    low, high = significance.bootstrap_interval(
        difference, query_weight, settings.resamples, settings.confidence, key
    )
    # p_adjusted and significant are replaced after Holm's correction, which needs all systems.
    return PairedResult(
        metric=metric,
        system=names[number],
        baseline_mean=significance.mean(baseline, query_weight),
        system_mean=significance.mean(system, query_weight),
        difference=significance.mean(difference, query_weight),
        effect_size=significance.effect_size(difference, query_weight),
        low=low,
        high=high,
        wins=int(np.count_nonzero(difference > 0)),
        ties=int(np.count_nonzero(difference == 0)),
        losses=int(np.count_nonzero(difference < 0)),
        n_queries=len(difference),
        p_fisher=p_values["fisher"],
        p_t=p_values["t"],
        p_wilcoxon=p_values["wilcoxon"],
        p=p,
        p_adjusted=p,
        significant=p <= _level(settings.confidence),
    )


def _level(confidence: float) -> float:
    """Return the level of the tests, rounded because 1 - 0.9 is less than 0.1 in floating point."""
    return round(1 - confidence, significance.DECIMALS)


def _system_names(names: Sequence[str] | None, count: int) -> list[str]:
    if names is None and count == 2:
        return ["baseline", "system"]
    if names is None:
        return ["baseline", *(f"system {number}" for number in range(1, count))]
    if isinstance(names, str) or len(names) != count or len(set(names)) != count:
        raise ValueError(
            f"names must be {count} different names, one per evaluation with the baseline first; "
            f"got {names!r}."
        )
    return list(names)


def _latex_text(text: str) -> str:
    escapes = {c: rf"\{c}" for c in "&%$#_{}"}
    escapes |= {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    return "".join(escapes.get(c, c) for c in text)


def _latex_number(text: str) -> str:
    for sign in "-+<":
        text = text.replace(sign, f"${sign}$")
    return text.replace("*", "$^{*}$").strip()
