"""Generated web-search data, and three ways to make any data set harder.

:func:`make_web_search` draws queries from a *world*: a planted, nonlinear relevance and the columns
through which it is seen. The seed fixes the world, and the seed and its own number fix each query,
so asking for more queries, or for other queries of the same world, never changes the first ones.

:func:`with_label_noise`, :func:`with_added_negatives` and :func:`with_clicks` corrupt any
:class:`~rankwright.data.dataset.RankingData`. Each query has a random stream of its own, which depends on
the seed and the query's id alone.

Reference: Bruch, "An Alternative Cross Entropy Loss for Learning-to-Rank", WWW 2021, section 5.4
and appendix E (the corruptions).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from rankwright.data.dataset import RankingData

__all__ = ["make_web_search", "with_added_negatives", "with_clicks", "with_label_noise"]

_Floats = NDArray[np.float64]
_Singles = NDArray[np.float32]
_Integers = NDArray[np.int64]

_LABEL_REDRAW = np.array([0.5, 0.2, 0.15, 0.1, 0.05])
_CLICK_PROBABILITY = np.array([0.05, 0.3, 0.5, 0.7, 0.95])

_SHORTEST = 5
_LENGTH_SPREAD = 0.55
_FEWEST_FEATURES = 20


class _Kind(NamedTuple):
    """Shares of the labels 0 to 4, and the mean number of documents of a query."""

    shares: tuple[float, ...]
    mean_length: float


# The public collections these follow: MSLR-WEB30K, Istella and Yahoo (set 1).
_KINDS = {
    "web": _Kind((0.515, 0.325, 0.134, 0.018, 0.008), 120.0),
    "sparse": _Kind((0.980, 0.007, 0.006, 0.004, 0.003), 300.0),
    "short": _Kind((0.261, 0.358, 0.285, 0.077, 0.019), 24.0),
}


class _Purpose(IntEnum):
    """What a random stream is for; streams of different purposes never overlap."""

    WORLD = 0
    QUERY = 1
    LABEL_NOISE = 2
    NEGATIVES = 3
    CLICKS = 4


class _Trait(IntEnum):
    """The hidden traits of a document, standard normal within a query."""

    BODY = 0
    TITLE = 1
    URL = 2
    AUTHORITY = 3
    SPAM = 4
    SIZE = 5
    AGE = 6
    TOPIC = 7


class _Wish(IntEnum):
    """The hidden traits of a query, standard normal."""

    SITE = 0
    RARITY = 1
    NEWS = 2


# Families of columns and their shares of the features; "count" takes what rounding leaves.
_FAMILIES = {
    "count": 0.28,
    "size": 0.18,
    "score": 0.16,
    "ratio": 0.13,
    "likelihood": 0.10,
    "flag": 0.04,
    "click": 0.03,
    "query": 0.05,
    "constant": 0.03,
}


def make_web_search(
    n_queries: int = 200,
    *,
    kind: Literal["web", "sparse", "short"] = "web",
    n_features: int = 136,
    mean_length: float | None = None,
    label_noise: float = 0.0,
    added_negatives: float = 0.0,
    clicks: float | None = None,
    first_query: int = 0,
    seed: int = 0,
) -> RankingData:
    """Generate search results with graded labels, in the manner of the public collections.

    Features are float32 on their raw scales: heavy-tailed counts and sizes, scores with many zeros,
    ratios with ties, flags, negative log-likelihoods, columns with missing values, columns that are
    constant within a query and columns that are constant altogether; a feature's name tells which.
    Labels come from hidden traits of documents and queries through thresholds, interactions and
    weights that depend on the query, plus noise whose strength differs between queries. No ranker
    can reach an NDCG of 1.

    The query of number q is the same whatever `n_queries` and `first_query` are, unless
    `added_negatives` is used: those documents are sampled from the other queries of the data set.
    For data to train and to test on, either split one data set by query or ask twice with one seed:
    another seed is another world, with another relevance.

    Parameters
    ----------
    n_queries
        Number of queries.
    kind
        Shares of labels and lengths of lists: "web" (51.5 % of label 0, about 120 documents a
        query, as in MSLR-WEB30K), "sparse" (98 % of label 0, about 300 documents, as in Istella) or
        "short" (26 % of label 0, about 24 documents, as in Yahoo's set 1).
    n_features
        Number of features, at least 20. It changes neither labels nor lengths.
    mean_length
        Mean number of documents of a query, at least 10, instead of the kind's own. Lengths are
        log-normal and at least 5.
    label_noise, added_negatives
        Shares for :func:`with_label_noise` and :func:`with_added_negatives`, applied in this order.
    clicks
        If given, the labels are at last replaced by clicks: `noise` of :func:`with_clicks`.
    first_query
        Number of the first query, counted from 0. Query number q has the id q + 1.
    seed
        Names the world. Equal arguments give equal data.

    Returns
    -------
    RankingData
        The queries in the order of their ids.

    Examples
    --------
    >>> train = make_web_search(30, seed=7)
    >>> test = make_web_search(10, first_query=30, seed=7)
    >>> train.n_queries, test.n_queries, test.X.shape[1]
    (30, 10, 136)
    """
    if kind not in _KINDS:
        raise ValueError(f"unknown kind {kind!r} of search data. Known: {', '.join(_KINDS)}.")
    if mean_length is None:
        mean_length = _KINDS[kind].mean_length
    _require_at_least("n_queries", n_queries, 1)
    _require_at_least("n_features", n_features, _FEWEST_FEATURES)
    _require_at_least("mean_length", mean_length, 2 * _SHORTEST)
    _require_at_least("first_query", first_query, 0)

    world = _World.of(seed, _KINDS[kind].shares, n_features)
    numbers = range(first_query, first_query + n_queries)
    streams = [_stream(seed, _Purpose.QUERY, number) for number in numbers]
    lengths = np.array([_draw_length(rng, mean_length) for rng in streams], dtype=np.int64)
    ends = np.cumsum(lengths)
    X = np.empty((int(ends[-1]), n_features), dtype=np.float32)
    y = np.empty(len(X))
    for rng, start, end in zip(streams, ends - lengths, ends, strict=True):
        y[start:end] = world.fill_query(rng, X[start:end])
    data = RankingData(
        X,
        y,
        qid=np.repeat(np.arange(first_query + 1, first_query + n_queries + 1), lengths),
        feature_names=world.feature_names,
    )
    if label_noise:
        data = with_label_noise(data, label_noise, seed=seed)
    if added_negatives:
        data = with_added_negatives(data, added_negatives, seed=seed)
    if clicks is not None:
        data = with_clicks(data, clicks, seed=seed)
    return data


def with_label_noise(data: RankingData, share: float, *, seed: int = 0) -> RankingData:
    """Redraw labels at random: 0 to 4 with probabilities .5, .2, .15, .1 and .05.

    A redrawn label may equal the old one, so fewer than `share` of the labels change.

    Parameters
    ----------
    data
        Data with labels 0 to 4.
    share
        Probability, for each document, that its label is redrawn.
    seed
        Equal data and seeds give equal results.

    Returns
    -------
    RankingData
        The same documents in the same order, with the new labels.

    Examples
    --------
    >>> data = make_web_search(20)
    >>> noisy = with_label_noise(data, 0.5)
    >>> bool(0.2 < (noisy.y != data.y).mean() < 0.4)
    True
    """
    _require_probability("share", share)
    labels = _grades(data).astype(np.float64)
    for start, end, key in _each_query(data):
        rng = _stream(seed, _Purpose.LABEL_NOISE, key)
        chosen = rng.random(end - start) < share
        redrawn = rng.choice(len(_LABEL_REDRAW), size=end - start, p=_LABEL_REDRAW)
        labels[start:end][chosen] = redrawn[chosen]
    return data._like(data.X, labels, data.qid, data.weights)


def with_added_negatives(data: RankingData, share: float, *, seed: int = 0) -> RankingData:
    """Lengthen each query's list by documents of other queries, with label 0.

    Parameters
    ----------
    data
        Data of at least two queries.
    share
        Growth of each list: n documents become n + round(share * n). It may exceed 1.
    seed
        Equal data and seeds give equal results.

    Returns
    -------
    RankingData
        Each query's own documents in their order, then the added ones: different rows of `data`, at
        the mean weight of the query's own where there are weights.

    Examples
    --------
    >>> data = RankingData([[1.0], [2.0], [3.0], [4.0]], [1, 2, 3, 4], qid=[1, 1, 2, 2])
    >>> longer = with_added_negatives(data, 0.5)
    >>> longer.group.tolist(), longer.y.tolist()
    ([3, 3], [1.0, 2.0, 0.0, 3.0, 4.0, 0.0])
    """
    if not (np.isfinite(share) and share >= 0):
        raise ValueError(f"share is {share}; the growth of the lists must be finite and at least 0.")
    n_added = np.rint(share * data.group).astype(np.int64)
    n_others = data.n_rows - data.group
    if np.any(n_added > n_others):
        q = int(np.argmax(n_added > n_others))
        raise ValueError(
            f"query {data.query_ids[q]} needs {n_added[q]} documents of other queries, which have "
            f"only {n_others[q]}. Lower share={share} or give more queries."
        )
    rows: list[_Integers] = []
    for (start, end, key), n in zip(_each_query(data), n_added, strict=True):
        rng = _stream(seed, _Purpose.NEGATIVES, key)
        others = rng.choice(data.n_rows - (end - start), size=n, replace=False)
        rows += [np.arange(start, end), np.where(others < start, others, others + end - start)]
    taken = np.concatenate(rows)
    qid = np.repeat(data.query_ids, data.group + n_added)
    is_own = np.repeat(np.tile([True, False], data.n_queries), [len(part) for part in rows])
    weights = None
    if data.weights is not None:
        means = np.add.reduceat(data.weights, data.boundaries[:-1]) / data.group
        weights = np.where(is_own, data.weights[taken], np.repeat(means, data.group + n_added))
    return data._like(data.X[taken], np.where(is_own, data.y[taken], 0.0), qid, weights)


def with_clicks(data: RankingData, noise: float = 0.05, *, impressions: int = 10, seed: int = 0) -> RankingData:
    """Replace graded labels by the clicks of simulated users.

    A user sees a query's documents in random order, looks at one after the other, clicks with a
    probability that depends on the label (`noise`, .3, .5, .7, .95 for 0 to 4) and leaves after the
    first click: the cascade model. The documents looked at form an impression, a query of its own,
    in which the last document, the clicked one, has label 1 and the others 0. An impression without
    a click is dropped, so there may be fewer than `impressions` for each query.

    Parameters
    ----------
    data
        Data with labels 0 to 4.
    noise
        Click probability of a document that is not relevant.
    impressions
        Number of users for each query.
    seed
        Equal data and seeds give equal results.

    Returns
    -------
    RankingData
        The impressions. Number i, from 0, of query "a" has the id "a/i"; ids are text, and as
        always the queries ascend by id.

    Examples
    --------
    >>> clicked = with_clicks(make_web_search(5), impressions=3)
    >>> clicked.query_ids[:4].tolist()
    ['1/0', '1/1', '1/2', '2/0']
    >>> bool((clicked.y[clicked.boundaries[1:] - 1] == 1).all())
    True
    """
    _require_probability("noise", noise)
    _require_at_least("impressions", impressions, 1)
    names = [str(name) for name in data.query_ids.tolist()]
    if len(set(names)) < len(names):
        raise ValueError(
            "two query ids look the same as text (1 and '1', say), so that their impressions would "
            "merge. Give the queries ids that differ as text."
        )
    click_probability = np.array([noise, *_CLICK_PROBABILITY[1:]])[_grades(data)]
    rows: list[_Integers] = []
    sizes: list[_Integers] = []
    ids: list[str] = []
    for (start, end, key), name in zip(_each_query(data), names, strict=True):
        rng = _stream(seed, _Purpose.CLICKS, key)
        shown = rng.permuted(np.tile(np.arange(start, end), (impressions, 1)), axis=1)
        clicked = rng.random(shown.shape) < click_probability[shown]
        n_seen = np.where(clicked.any(axis=1), clicked.argmax(axis=1) + 1, 0)
        rows.append(shown[np.arange(end - start) < n_seen[:, None]])
        sizes.append(n_seen[n_seen > 0])
        ids += [f"{name}/{i}" for i in np.flatnonzero(n_seen)]
    if not ids:
        raise ValueError(
            f"no impression has a click: {impressions} for each of {data.n_queries} queries. "
            "Raise noise or impressions, or give queries with relevant documents."
        )
    taken = np.concatenate(rows)
    lengths = np.concatenate(sizes)
    labels = np.zeros(len(taken))
    labels[np.cumsum(lengths) - 1] = 1.0
    weights = None if data.weights is None else data.weights[taken]
    return data._like(data.X[taken], labels, np.repeat(ids, lengths), weights)


@dataclass(frozen=True, eq=False)
class _World:
    """The planted relevance and the columns that show it.

    Parameters
    ----------
    strengths
        Weights of the five parts of the utility [parts].
    cuts
        Utilities at which the label rises by one [4].
    columns
        Slice of the features of each family.
    source, loading
        The trait that each column shows, and how well: its correlation with the column before the
        family's transformation [features].
    level, spread
        Location and scale of each column [features].
    """

    strengths: _Floats
    cuts: _Floats
    columns: dict[str, slice]
    source: _Integers
    loading: _Singles
    level: _Singles
    spread: _Singles

    @classmethod
    def of(cls, seed: int, shares: tuple[float, ...], n_features: int) -> Self:
        """Draw a world: first the relevance, so that it does not depend on the columns."""
        rng = _stream(seed, _Purpose.WORLD, 0)
        strengths = np.array([1.6, 1.5, 1.3, 1.2, 1.3]) * np.exp(0.1 * rng.standard_normal(5))
        # Utilities have no closed-form quantiles: a sample of queries sets the cuts.
        *_, utility = _draw_results(rng, strengths, n_queries=4000, n=25)
        cuts = np.quantile(utility, np.cumsum(shares)[:-1])

        counts = {name: max(1, round(share * n_features)) for name, share in _FAMILIES.items()}
        counts["count"] += n_features - sum(counts.values())
        ends = np.cumsum(list(counts.values())).tolist()
        columns = {name: slice(end - count, end) for (name, count), end in zip(counts.items(), ends, strict=True)}
        return cls(
            strengths,
            cuts,
            columns,
            source=rng.permutation(np.arange(n_features) % len(_Trait)),
            loading=rng.uniform(0.2, 0.75, n_features).astype(np.float32),
            level=rng.standard_normal(n_features).astype(np.float32),
            spread=rng.uniform(0.8, 1.6, n_features).astype(np.float32),
        )

    @property
    def feature_names(self) -> list[str]:
        """Family and number of each column, such as "score_3"."""
        return [f"{family}_{i}" for family, where in self.columns.items() for i in range(where.stop - where.start)]

    def fill_query(self, rng: np.random.Generator, X: _Singles) -> _Floats:
        """Draw one query: fill its rows of features `X` and return its labels."""
        traits, wishes, utility = (part[0] for part in _draw_results(rng, self.strengths, n_queries=1, n=len(X)))
        site, rarity, _ = wishes
        n_terms = np.float32(1 + np.floor(np.exp(0.9 - 0.5 * site + 0.3 * rng.standard_normal())))
        idf = np.float32(n_terms * np.exp(1.0 + 0.4 * rarity))

        noise = rng.standard_normal(X.shape, dtype=np.float32)
        # Columns sit at another level in each query, so only differences within one mean much.
        shift = 0.4 * rng.standard_normal(X.shape[1], dtype=np.float32)
        shown = traits.astype(np.float32)[:, self.source] * self.loading
        shown += noise * np.sqrt(1 - self.loading**2) + shift
        value = self.level + self.spread * shown

        at = self.columns
        X[:, at["count"]] = np.floor(np.exp(value[:, at["count"]] - 0.5))
        X[:, at["size"]] = np.exp(5 + value[:, at["size"]])
        X[:, at["score"]] = idf * np.maximum(0, value[:, at["score"]])
        X[:, at["ratio"]] = np.rint(n_terms / (1 + np.exp(-value[:, at["ratio"]]))) / n_terms
        X[:, at["likelihood"]] = -n_terms * np.logaddexp(0, 3 - value[:, at["likelihood"]])
        X[:, at["flag"]] = value[:, at["flag"]] > 0
        X[:, at["click"]] = np.floor(np.exp(3 + value[:, at["click"]]))
        is_logged = traits[:, _Trait.AUTHORITY] + rng.standard_normal(len(X)) > -0.7
        X[~is_logged, at["click"]] = np.nan
        X[:, at["query"]] = self._describe_query(rng, wishes, n_terms, idf)
        X[:, at["constant"]] = np.abs(np.rint(self.level[at["constant"]]))
        labels: _Integers = np.searchsorted(self.cuts, utility, side="right")
        return labels.astype(np.float64)

    def _describe_query(
        self, rng: np.random.Generator, wishes: _Floats, n_terms: np.float32, idf: np.float32
    ) -> _Singles:
        """Values of the columns that are constant within a query [columns of that family]."""
        level = self.level[self.columns["query"]]
        wish = np.resize(wishes, len(level))
        described = np.exp(level + wish + 0.3 * rng.standard_normal(len(level)))
        described[:2] = (n_terms, idf)[: len(level)]
        return described.astype(np.float32)


def _draw_results(
    rng: np.random.Generator, strengths: _Floats, *, n_queries: int, n: int
) -> tuple[_Floats, _Floats, _Floats]:
    """Draw traits [queries, n, traits], wishes [queries, wishes] and utilities [queries, n]."""
    traits = rng.standard_normal((n_queries, n, len(_Trait)))
    matches = [_Trait.BODY, _Trait.TITLE, _Trait.URL]
    traits[..., matches] = 0.8 * traits[..., matches] + 0.6 * traits[..., [_Trait.TOPIC]]
    wishes = rng.standard_normal((n_queries, len(_Wish)))
    wants_site = 1 / (1 + np.exp(-2 * wishes[:, [_Wish.SITE]]))
    parts = (
        (1 - wants_site) * np.minimum(traits[..., _Trait.BODY], traits[..., _Trait.TITLE]),
        wants_site * (traits[..., _Trait.URL] > 0.6) * (1 + traits[..., _Trait.AUTHORITY]),
        -1.0 * (traits[..., _Trait.SPAM] > 0.7),
        -np.abs(traits[..., _Trait.SIZE]),
        np.tanh(2 * wishes[:, [_Wish.NEWS]]) * traits[..., _Trait.AGE],
    )
    utility = sum(strength * part for strength, part in zip(strengths, parts, strict=True))
    richness = 0.5 * rng.standard_normal((n_queries, 1))
    difficulty = np.exp(0.4 * rng.standard_normal((n_queries, 1)))
    noise = difficulty * rng.standard_normal((n_queries, n))
    return traits, wishes, utility + richness + noise


def _draw_length(rng: np.random.Generator, mean: float) -> int:
    """Draw a log-normal number of documents of the given mean."""
    drawn = rng.lognormal(np.log(mean) - _LENGTH_SPREAD**2 / 2, _LENGTH_SPREAD)
    return max(_SHORTEST, int(np.rint(drawn)))


def _stream(seed: int, purpose: _Purpose, key: int) -> np.random.Generator:
    """Make the random stream of one purpose and one query, whatever else has been drawn."""
    if not (isinstance(seed, int | np.integer) and 0 <= seed < 2**64):
        raise ValueError(f"seed is {seed!r}; it must be a whole number from 0 to 2**64 - 1.")
    # The counter's low words count the draws; its top word keeps the purposes apart.
    return np.random.Generator(
        np.random.Philox(
            key=np.array([seed, key], dtype=np.uint64),
            counter=np.array([0, 0, 0, purpose], dtype=np.uint64),
        )
    )


def _each_query(data: RankingData) -> Iterator[tuple[int, int, int]]:
    """Yield first row, end and key of each query."""
    bounds = data.boundaries.tolist()
    return zip(bounds[:-1], bounds[1:], data.query_keys.tolist(), strict=True)


def _grades(data: RankingData) -> _Integers:
    """Return the labels as whole numbers, or refuse labels other than 0 to 4."""
    grades = np.clip(data.y, 0, len(_LABEL_REDRAW) - 1).astype(np.int64)
    if np.any(grades != data.y):
        row = int(np.argmax(grades != data.y))
        raise ValueError(
            f"the labels must be 0, 1, 2, 3 or 4, but row {row} (query {data.qid[row]}) has "
            f"{data.y[row]:g}. Map the labels to these grades first."
        )
    return grades


def _require_at_least(name: str, value: float, least: float) -> None:
    if not (np.isfinite(value) and value >= least):
        raise ValueError(f"{name} is {value}; it must be at least {least}.")


def _require_probability(name: str, value: float) -> None:
    if not 0 <= value <= 1:
        raise ValueError(f"{name} is {value}; it is a probability and must be from 0 to 1.")
