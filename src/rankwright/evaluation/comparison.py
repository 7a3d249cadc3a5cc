"""Whether one ranker is better than another: paired significance tests over queries.

Fisher's randomisation test asks how often a mean difference as large as the observed one appears
if, on every query, the two systems could as well have swapped their values:

    p = P(|Σ s_q w_q d_q| >= |Σ w_q d_q|),  s_q = ±1 with equal chance,

where d_q is the difference and w_q the weight of query q.

Reference: Smucker, Allan and Carterette, CIKM 2007, for the three tests; Holm, Scandinavian
Journal of Statistics, 1979, for the correction over several systems.

Departs from it: sampled p-values are (1 + hits) / (1 + permutations), so that they are never 0
and the test keeps its level (Phipson and Smyth, 2010).
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pandas as pd

Floats = NDArray[np.float64]

_TIE = 1e-12  # differences up to this are rounding, not another ranking
_DECIMALS = 12  # the same for Wilcoxon's ranks: 0.3 - 0.2 and 0.2 - 0.1 share one
_EXACT = 20  # with up to this many differing queries, all 2^20 sums (8 MB) are enumerated
_PERMUTATIONS = 1 << 14  # sampled at a time: running sums and draws stay in the cache
_BLOCK = 1 << 10  # groups of eight queries tabulated at a time, 2 MB
_DRAWS = 1 << 20  # queries a bootstrap step draws at a time, 8 MB
_TESTS = {
    "fisher": "Fisher's randomisation test",
    "t": "Student's t test",
    "wilcoxon": "Wilcoxon's signed-rank test",
}


class PerQueryValues(Protocol):
    """What `compare` reads of an `Evaluation`."""

    @property
    def per_query(self) -> Mapping[str, Floats]:
        """Values by metric, in the order of `query_ids`; NaN where a query was skipped."""

    @property
    def query_ids(self) -> NDArray[Any]:
        """Identifier of each query."""

    @property
    def ties(self) -> object:
        """How documents of equal score were treated."""

    @property
    def empty(self) -> object:
        """How queries without a relevant document were treated."""

    @property
    def weights(self) -> Floats | None:
        """Weight of each query, or None."""


@dataclass(frozen=True)
class PairedResult:
    """One system against the baseline by one metric: a row of a `Comparison`.

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
        Queries where the system's value is larger, the same (up to 1e-12) and smaller. Larger
        is a win for every metric, also for one where lower is better.
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
class Comparison:
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

    def __str__(self) -> str:
        header, body = self._cells()
        widths = [max(map(len, column)) for column in zip(header, *body, strict=True)]
        lines = []
        for cells in (header, *body):
            texts = [cell.ljust(w) for cell, w in zip(cells[:2], widths[:2], strict=True)]
            numbers = [cell.rjust(w) for cell, w in zip(cells[2:], widths[2:], strict=True)]
            lines.append("  ".join(texts + numbers).rstrip())
        return "\n".join([*lines, *self._footnotes()])

    def _repr_html_(self) -> str:
        header, body = self._cells()
        head = "".join(f"<th>{html.escape(cell)}</th>" for cell in header)
        rows = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in cells) + "</tr>" for cells in body)
        notes = "<br>".join(map(html.escape, self._footnotes()))
        return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table><p>{notes}</p>"

    def to_latex(self) -> str:
        """Return the table for LaTeX's booktabs, with the footnotes as comments below it."""
        header, body = self._cells()
        rows = [[*map(_latex_text, cells[:2]), *map(_latex_number, cells[2:])] for cells in body]
        lines = [
            rf"\begin{{tabular}}{{ll{'r' * (len(header) - 2)}}}",
            r"\toprule",
            " & ".join(map(_latex_text, header)) + r" \\",
            r"\midrule",
            *(" & ".join(cells) + r" \\" for cells in rows),
            r"\bottomrule",
            r"\end{tabular}",
            *(f"% {note}" for note in self._footnotes()),
        ]
        return "\n".join(lines)

    def to_dataframe(self) -> pd.DataFrame:
        """Return a pandas frame with a column per attribute of `PairedResult`."""
        try:
            import pandas as pd
        except ImportError as error:
            raise ImportError("to_dataframe needs pandas; run `pip install pandas`.") from error
        columns = [field.name for field in fields(PairedResult)]
        return pd.DataFrame([asdict(row) for row in self.rows], columns=columns)

    def to_dict(self) -> dict[str, Any]:
        """Return the attributes, with each row as a dictionary."""
        return asdict(self)

    @property
    def _corrected(self) -> bool:
        return len({row.system for row in self.rows}) > 1

    def _cells(self) -> tuple[list[str], list[list[str]]]:
        """Return the header and the body of the table as text."""
        header = ["metric", "system", "baseline", "mean", "difference"]
        header += [f"{100 * self.confidence:g}% interval", "effect", "win/tie/loss", "p"]
        body = [
            [
                row.metric,
                row.system,
                f"{row.baseline_mean:.4f}",
                f"{row.system_mean:.4f}",
                f"{row.difference:+.4f}",
                f"[{row.low:+.4f}, {row.high:+.4f}]",
                f"{row.effect_size:+.3f}",
                f"{row.wins}/{row.ties}/{row.losses}",
                _p_text(row.p),
            ]
            for row in self.rows
        ]
        if self._corrected:
            header.append("p (Holm)")
            for cells, row in zip(body, self.rows, strict=True):
                cells.append(_p_text(row.p_adjusted))
        for cells, row in zip(body, self.rows, strict=True):
            cells[-1] += "*" if row.significant else " "
        return header, body

    def _footnotes(self) -> list[str]:
        sizes = [row.n_queries for row in self.rows]
        n = f"{min(sizes)}" if min(sizes) == max(sizes) else f"{min(sizes)} to {max(sizes)}"
        correction = ", Holm's correction over the systems" if self._corrected else ""
        return [
            f"Baseline: {self.baseline}; n = {n} queries; effect: Cohen's d of the differences.",
            f"* p <= {_level(self.confidence):g}: {_TESTS[self.test]}, two-sided{correction}.",
        ]


def compare(
    a: PerQueryValues,
    b: PerQueryValues,
    *others: PerQueryValues,
    metrics: str | Iterable[object] | None = None,
    test: str = "fisher",
    names: Sequence[str] | None = None,
    permutations: int = 100_000,
    resamples: int = 10_000,
    confidence: float = 0.95,
    seed: int = 0,
) -> Comparison:
    """Compare systems with a baseline, query by query.

    All evaluations must be of the same queries, in any order, made with the same treatment of
    ties, of empty queries and of weights. Queries without a value are left out.

    If queries have weights, means, effect sizes and intervals are weighted, the bootstrap draws
    queries with equal chance and takes the weighted mean of those drawn, Fisher's test is that
    of the weighted mean, and queries of weight 0 are left out. The other two tests have no
    weighted form here: their p-values are NaN, and choosing one of them is an error.

    Parameters
    ----------
    a : Evaluation
        The baseline. Values from elsewhere can be compared too: any object with the attributes
        of `PerQueryValues` will do.
    b, *others : Evaluation
        The systems to compare with it.
    metrics : str or iterable, optional
        Metrics to compare, as text or as metric objects; all that the evaluations share if None.
    test : {"fisher", "t", "wilcoxon"}
        Which test decides on significance. All three are in the result.
    names : sequence of str, optional
        Names of the systems, the baseline's first.
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
        metrics, so that another metric or a further system changes no other `p`.

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
    """
    systems = [a, b, *others]
    names = _system_names(names, len(systems))
    _check_arguments(test, permutations, resamples, confidence, seed)
    _check_policies(systems, names)
    # Position in each evaluation of the baseline's queries.
    places = [_places(a, system, name) for system, name in zip(systems, names, strict=True)]
    weights = _shared_weights(systems, places, names)
    if weights is not None and test != "fisher":
        raise ValueError(
            f"test={test!r} has no weighted form, but the evaluations have query weights. "
            "Use test='fisher', or evaluate without weights."
        )

    plan = Comparison((), names[0], test, permutations, resamples, confidence, seed)
    rows: list[PairedResult] = []
    for metric in _shared_metrics(systems, names, metrics):
        values = [
            np.asarray(system.per_query[metric], dtype=np.float64)[place]
            for system, place in zip(systems, places, strict=True)
        ]
        kept = _compared_queries(values, weights, names, metric, a.query_ids)
        query_weight = None if weights is None else weights[kept]
        pairs = [
            _paired_result(plan, metric, names, number, values[0][kept], other[kept], query_weight)
            for number, other in enumerate(values[1:], start=1)
        ]
        adjusted = holm([pair.p for pair in pairs])
        rows += [
            replace(pair, p_adjusted=p, significant=p <= _level(confidence))
            for pair, p in zip(pairs, adjusted, strict=True)
        ]
    return replace(plan, rows=tuple(rows))


def _paired_result(
    plan: Comparison,
    metric: str,
    names: Sequence[str],
    number: int,
    baseline: Floats,
    system: Floats,
    query_weight: Floats | None,
) -> PairedResult:
    """Return the row of one system by one metric, not corrected for other systems."""
    difference = system - baseline
    difference[np.abs(difference) <= _TIE] = 0.0
    key = (plan.seed, number)
    p_values = {
        "fisher": _fisher(difference, query_weight, plan.permutations, key),
        "t": _student(difference) if query_weight is None else np.nan,
        "wilcoxon": _wilcoxon(difference, key) if query_weight is None else np.nan,
    }
    p = p_values[plan.test]
    low, high = _bootstrap(difference, query_weight, plan.resamples, plan.confidence, key)
    return PairedResult(
        metric=metric,
        system=names[number],
        baseline_mean=_mean(baseline, query_weight),
        system_mean=_mean(system, query_weight),
        difference=_mean(difference, query_weight),
        effect_size=_effect_size(difference, query_weight),
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
        significant=p <= _level(plan.confidence),
    )


def _mean(values: Floats, query_weight: Floats | None) -> float:
    return float(np.average(values, weights=query_weight))


def _effect_size(difference: Floats, query_weight: Floats | None) -> float:
    mean = _mean(difference, query_weight)
    n = len(difference)
    deviation = np.sqrt(_mean((difference - mean) ** 2, query_weight) * n / (n - 1))
    if deviation <= _TIE * abs(mean):  # equal differences: what is left is rounding
        return float(np.sign(mean) * np.inf) if mean else 0.0
    return float(mean / deviation)


def _student(difference: Floats) -> float:
    """Return the p-value of the paired t test; t is Cohen's d times the root of n."""
    n = len(difference)
    t = abs(_effect_size(difference, None)) * np.sqrt(n)
    from scipy.special import stdtr  # here: it would double the time to import the package

    return float(2 * stdtr(n - 1, -t))


def _wilcoxon(difference: Floats, key: tuple[int, int]) -> float:
    nonzero = np.round(difference[difference != 0], _DECIMALS)
    from scipy.stats import rankdata, wilcoxon  # here, as above

    if len(nonzero) <= _EXACT:  # its exact form is Fisher's test of the signed ranks, and takes SciPy seconds with ties
        return _fisher(np.sign(nonzero) * rankdata(np.abs(nonzero)), None, 0, key)
    return float(wilcoxon(nonzero).pvalue)


def _fisher(difference: Floats, query_weight: Floats | None, permutations: int, key: tuple[int, int]) -> float:
    terms = difference if query_weight is None else difference * query_weight
    # Sorted sizes make the sampled p-value the same for any order of queries and for both signs.
    sizes = np.sort(np.abs(terms[terms != 0]))
    # Sums that are equal but for rounding must count as equal; rounding grows with the sizes.
    threshold = abs(terms.sum()) - _TIE * sizes.sum()
    if len(sizes) <= _EXACT:
        return float(np.mean(np.abs(_signed_sums(sizes[None])) >= threshold))
    bits = np.random.PCG64(_stream(key, purpose=0))
    hits = 0
    for start in range(0, permutations, _PERMUTATIONS):
        sums = _sampled_sums(sizes, min(_PERMUTATIONS, permutations - start), bits)
        hits += int(np.count_nonzero(np.abs(sums) >= threshold))
    return (1 + hits) / (1 + permutations)


def _sampled_sums(sizes: Floats, count: int, bits: np.random.PCG64) -> Floats:
    """Return sums of the sizes [count], each size with a random sign.

    A random byte signs eight queries at once: it is looked up among their 256 signed sums. Raw
    bits and sums in a fixed order, without BLAS, give the same result on every platform.
    """
    sums = np.zeros(count)
    groups = np.pad(sizes, (0, -len(sizes) % 8)).reshape(-1, 8)
    for first in range(0, len(groups), _BLOCK):
        for table in _signed_sums(groups[first : first + _BLOCK]):
            words = np.asarray(bits.random_raw(-(-count // 8)), dtype="<u8")
            sums += table.take(words.view(np.uint8)[:count])
    return sums


def _signed_sums(groups: Floats) -> Floats:
    """Return the 2^k sums of each row [groups, k] over all choices of signs."""
    sums = np.zeros((len(groups), 1))
    for column in groups.T[:, :, None]:
        sums = np.hstack((sums + column, sums - column))
    return sums


def _bootstrap(
    difference: Floats,
    query_weight: Floats | None,
    resamples: int,
    confidence: float,
    key: tuple[int, int],
) -> tuple[float, float]:
    """Return the percentile interval of the mean difference."""
    n = len(difference)
    rng = np.random.Generator(np.random.PCG64(_stream(key, purpose=1)))
    means = np.empty(resamples)
    step = max(1, _DRAWS // n)
    for start in range(0, resamples, step):
        drawn = rng.integers(n, size=(min(step, resamples - start), n))
        if query_weight is None:
            mean = difference.take(drawn).mean(axis=1)
        else:
            weight = query_weight.take(drawn)
            mean = (weight * difference.take(drawn)).sum(axis=1) / weight.sum(axis=1)
        means[start : start + step] = mean
    low, high = np.quantile(means, [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(low), float(high)


def _stream(key: tuple[int, int], purpose: int) -> np.random.SeedSequence:
    seed, number = key
    return np.random.SeedSequence(seed, spawn_key=(number, purpose))


def holm(p_values: list[float]) -> list[float]:
    """Return p-values corrected for their number by Holm's method, in the given order.

    Examples
    --------
    >>> holm([0.03, 0.01, 0.04])
    [0.06, 0.03, 0.06]
    """
    adjusted = [0.0] * len(p_values)
    largest = 0.0
    for rank, i in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[i]))
        adjusted[i] = largest
    return adjusted


def _level(confidence: float) -> float:
    """Return the level of the tests; rounded, since 1 - 0.9 is less than 0.1."""
    return round(1 - confidence, _DECIMALS)


def _check_arguments(test: str, permutations: int, resamples: int, confidence: float, seed: int) -> None:
    if test not in _TESTS:
        raise ValueError(f"unknown test {test!r}. Known: {', '.join(_TESTS)}.")
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must be between 0 and 1, got {confidence}. Use 0.95 for tests at 5 %.")
    for name, value, least in (
        ("permutations", permutations, 1),
        ("resamples", resamples, 1),
        ("seed", seed, 0),
    ):
        if not isinstance(value, int | np.integer) or value < least:
            raise ValueError(f"{name} must be an integer of at least {least}, got {value!r}.")


def _system_names(names: Sequence[str] | None, count: int) -> list[str]:
    if names is None:
        numbers = [f"system {number}" for number in range(1, count)]
        return ["baseline", *(numbers if count > 2 else ["system"])]
    if isinstance(names, str) or len(names) != count or len(set(names)) != count:
        raise ValueError(
            f"names must be {count} different names, one for each evaluation with the baseline's first, got {names!r}."
        )
    return list(names)


def _check_policies(systems: Sequence[PerQueryValues], names: Sequence[str]) -> None:
    for policy in ("ties", "empty"):
        expected = getattr(systems[0], policy)
        for system, name in zip(systems, names, strict=True):
            if getattr(system, policy) != expected:
                raise ValueError(
                    f"{name!r} was evaluated with {policy}={getattr(system, policy)!r} but "
                    f"{names[0]!r} with {policy}={expected!r}. Evaluate both the same way."
                )


def _places(baseline: PerQueryValues, system: PerQueryValues, name: str) -> NDArray[np.int64]:
    """Return where the system's evaluation has each query of the baseline's."""
    expected = np.asarray(baseline.query_ids).tolist()
    found = np.asarray(system.query_ids).tolist()
    place = {query: i for i, query in enumerate(found)}
    if len(place) < len(found):
        raise ValueError(f"{name!r} has repeated query ids. Evaluate it with one id per query.")
    if place.keys() != set(expected):
        odd = next(iter(place.keys() ^ set(expected)))
        raise ValueError(
            f"{name!r} was evaluated on other queries than the baseline: only one of them has "
            f"query {odd!r}. Evaluate both on the same queries."
        )
    return np.fromiter((place[query] for query in expected), dtype=np.int64, count=len(expected))


def _shared_weights(
    systems: Sequence[PerQueryValues], places: Sequence[NDArray[np.int64]], names: Sequence[str]
) -> Floats | None:
    aligned = [
        np.asarray([] if system.weights is None else system.weights[place], dtype=np.float64)
        for system, place in zip(systems, places, strict=True)
    ]
    for weights, name in zip(aligned, names, strict=True):
        if not np.array_equal(weights, aligned[0]):
            raise ValueError(
                f"{name!r} and {names[0]!r} have different query weights. Evaluate both with the "
                "same weights, or both without."
            )
    if not (aligned[0] >= 0).all():
        raise ValueError("query weights must not be negative or NaN. Evaluate with other weights.")
    return None if systems[0].weights is None else aligned[0]


def _shared_metrics(
    systems: Sequence[PerQueryValues],
    names: Sequence[str],
    metrics: str | Iterable[object] | None,
) -> list[str]:
    if metrics is None:
        chosen = [m for m in systems[0].per_query if all(m in s.per_query for s in systems)]
    else:
        chosen = [metrics] if isinstance(metrics, str) else [str(metric) for metric in metrics]
    if not chosen:
        raise ValueError(
            "there is no metric to compare by: the evaluations share none, or metrics is empty. "
            "Evaluate all systems by the same metric."
        )
    for system, name in zip(systems, names, strict=True):
        for metric in chosen:
            if metric not in system.per_query:
                raise ValueError(f"{name!r} was not evaluated by {metric!r}. It has: {', '.join(system.per_query)}.")
    return chosen


def _compared_queries(
    values: Sequence[Floats],
    weights: Floats | None,
    names: Sequence[str],
    metric: str,
    query_ids: NDArray[Any],
) -> NDArray[np.bool_]:
    """Return which queries have a value, and a weight if there are weights."""
    missing = np.isnan(values[0])
    for system_values, name in zip(values, names, strict=True):
        odd = np.flatnonzero(np.isnan(system_values) != missing)
        if len(odd):
            raise ValueError(
                f"only one of {names[0]!r} and {name!r} has a value of {metric!r} for query "
                f"{query_ids[odd[0]]} (and {len(odd) - 1} more). Evaluate both on the same labels."
            )
    kept = ~missing if weights is None else ~missing & (weights > 0)
    if np.count_nonzero(kept) < 2:
        raise ValueError(
            f"{np.count_nonzero(kept)} queries have a value of {metric!r}, and a comparison needs "
            "at least 2. Evaluate on more queries."
        )
    return kept


def _p_text(p: float) -> str:
    return f"{p:.4f}" if p >= 0.0001 else "<0.0001"


def _latex_text(text: str) -> str:
    escapes = {c: rf"\{c}" for c in "&%$#_{}"}
    escapes |= {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    return "".join(escapes.get(c, c) for c in text)


def _latex_number(text: str) -> str:
    for sign in "-+<":
        text = text.replace(sign, f"${sign}$")
    return text.replace("*", "$^{*}$").strip()
