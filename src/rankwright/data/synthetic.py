"""Generate web-search data.

:func:`make_web_search` draws queries from a *world*: a planted, nonlinear relevance and the columns
through which it is observed. The seed determines the world, and the seed and a query's number
determine the query. So more queries, or other queries of the same world, never change the first
queries.
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from rankwright.data.dataset import RankingData
from rankwright.data.streams import Purpose, random_stream
from rankwright.support import checks

__all__ = ["make_web_search"]

_Floats = NDArray[np.float64]
_Singles = NDArray[np.float32]
_Integers = NDArray[np.int64]

_SHORTEST = 5  # documents of a query
_LENGTH_SPREAD = 0.55
_FEWEST_FEATURES = 20


class _Kind(NamedTuple):
    """Shares of the labels 0 to 4, and the mean number of documents of a query."""

    shares: tuple[float, ...]
    mean_length: float


# Modelled on MSLR-WEB30K, Istella and Yahoo (set 1).
_KINDS = {
    "web": _Kind((0.515, 0.325, 0.134, 0.018, 0.008), 120.0),
    "sparse": _Kind((0.980, 0.007, 0.006, 0.004, 0.003), 300.0),
    "short": _Kind((0.261, 0.358, 0.285, 0.077, 0.019), 24.0),
}


class _Trait(IntEnum):
    """Hidden traits of a document, standard normal within a query."""

    BODY = 0
    TITLE = 1
    URL = 2
    AUTHORITY = 3
    SPAM = 4
    SIZE = 5
    AGE = 6
    TOPIC = 7


class _Wish(IntEnum):
    """Hidden traits of a query, standard normal."""

    SITE = 0
    RARITY = 1
    NEWS = 2


# Families of columns and their shares of the features; "count" takes the columns that rounding leaves.
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
    first_query: int = 0,
    random_state: int = 0,
) -> RankingData:
    """Generate search results with graded labels, similar to the public collections.

    Features are float32 on their raw scales: heavy-tailed counts and sizes, scores with many zeros,
    ratios with ties, flags, negative log-likelihoods, columns with missing values, columns that are
    constant within a query and columns that are constant everywhere; the name of a feature gives its
    family. Labels come from hidden traits of documents and queries through thresholds, interactions
    and weights that depend on the query, plus noise whose strength differs between queries. No ranker
    can reach an NDCG of 1.

    Query number q is the same for all `n_queries` and `first_query`. To get training and test data,
    either split one data set by query or call this twice with the same seed, because another seed
    gives another world with another relevance.

    Parameters
    ----------
    n_queries
        Number of queries.
    kind
        Distribution of labels and list lengths: "web" (51.5 % of label 0, about 120 documents a
        query, as in MSLR-WEB30K), "sparse" (98 % of label 0, about 300 documents, as in Istella) or
        "short" (26 % of label 0, about 24 documents, as in Yahoo's set 1).
    n_features
        Number of features, at least 20. It changes neither labels nor lengths.
    mean_length
        Mean number of documents of a query, at least 10, in place of the mean of the kind. Lengths are
        log-normal and at least 5.
    first_query
        Number of the first query, counted from 0. Query number q has the id q + 1.
    random_state
        Determines the world. Equal arguments give equal data.

    Returns
    -------
    RankingData
        The queries in the order of their ids.

    Examples
    --------
    >>> train = make_web_search(30, random_state=7)
    >>> test = make_web_search(10, first_query=30, random_state=7)
    >>> train.n_queries, test.n_queries, test.X.shape[1]
    (30, 10, 136)
    """
    # Arguments are checked first, because the errors should come before the work.
    if kind not in _KINDS:
        raise ValueError(f"unknown kind {kind!r} of data; choose from {', '.join(_KINDS)}.")
    if mean_length is None:
        mean_length = _KINDS[kind].mean_length
    checks.whole("n_queries", n_queries, least=1)
    checks.whole("n_features", n_features, least=_FEWEST_FEATURES)
    checks.number("mean_length", mean_length, least=2 * _SHORTEST)
    checks.whole("first_query", first_query, least=0)

    world = _World.of(random_state, _KINDS[kind].shares, n_features)
    numbers = range(first_query, first_query + n_queries)
    # A stream gives first the length of its query, then the documents.
    streams = [random_stream(random_state, Purpose.QUERY, number) for number in numbers]
    lengths = np.array([_draw_length(rng, mean_length) for rng in streams], dtype=np.int64)
    ends = np.cumsum(lengths)
    X = np.empty((int(ends[-1]), n_features), dtype=np.float32)
    y = np.empty(len(X))
    for rng, start, end in zip(streams, ends - lengths, ends, strict=True):
        y[start:end] = world.fill_query(rng, X[start:end])
    qid = np.repeat(np.arange(first_query + 1, first_query + n_queries + 1), lengths)
    return RankingData(X, y, qid=qid, feature_names=world.feature_names)


@dataclass(frozen=True, eq=False)
class _World:
    """The planted relevance and the columns that reveal it.

    Parameters
    ----------
    strengths
        Weights of the five parts of the utility [parts].
    cuts
        Utilities at which the label rises by 1 [4].
    columns
        Slice of the features of each family.
    source, loading
        The trait that each column reveals, and its correlation with the column before the family's
        transformation [features].
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
        """Draw a world."""
        rng = random_stream(seed, Purpose.WORLD, 0)
        # The relevance is drawn first, so that it does not depend on the number of columns.
        strengths = np.array([1.6, 1.5, 1.3, 1.2, 1.3]) * np.exp(0.1 * rng.standard_normal(5))
        # Utilities have no closed-form quantiles, so the cuts come from a sample of queries.
        *_, utility = _draw_results(rng, strengths, n_queries=4000, n=25)
        cuts = np.quantile(utility, np.cumsum(shares)[:-1])

        counts = {name: max(1, round(share * n_features)) for name, share in _FAMILIES.items()}
        counts["count"] += n_features - sum(counts.values())
        ends = np.cumsum(list(counts.values())).tolist()
        columns = {
            name: slice(end - count, end)
            for (name, count), end in zip(counts.items(), ends, strict=True)
        }
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
        """Family and number of each column, for example "score_3"."""
        names = []
        for family, columns in self.columns.items():
            names += [f"{family}_{number}" for number in range(columns.stop - columns.start)]
        return names

    def fill_query(self, rng: np.random.Generator, X: _Singles) -> _Floats:
        """Draw a query: fill its features `X` and return its labels."""
        traits, wishes, utility = (
            part[0] for part in _draw_results(rng, self.strengths, n_queries=1, n=len(X))
        )
        # Site searches have few terms, and rare terms have a high inverse document
        # frequency.
        site, rarity, _ = wishes
        n_terms = np.float32(1 + np.floor(np.exp(0.9 - 0.5 * site + 0.3 * rng.standard_normal())))
        idf = np.float32(n_terms * np.exp(1.0 + 0.4 * rarity))

        noise = rng.standard_normal(X.shape, dtype=np.float32)
        # Columns are shifted in each query, because mainly differences within a query should be informative.
        shift = 0.4 * rng.standard_normal(X.shape[1], dtype=np.float32)
        signal = traits.astype(np.float32)[:, self.source] * self.loading
        signal += noise * np.sqrt(1 - self.loading**2) + shift
        value = self.level + self.spread * signal

        # Each family turns the normal values into its own scale, as in the public
        # collections.
        at = self.columns
        X[:, at["count"]] = np.floor(np.exp(value[:, at["count"]] - 0.5))
        X[:, at["size"]] = np.exp(5 + value[:, at["size"]])
        X[:, at["score"]] = idf * np.maximum(0, value[:, at["score"]])
        X[:, at["ratio"]] = np.rint(n_terms / (1 + np.exp(-value[:, at["ratio"]]))) / n_terms
        X[:, at["likelihood"]] = -n_terms * np.logaddexp(0, 3 - value[:, at["likelihood"]])
        X[:, at["flag"]] = value[:, at["flag"]] > 0
        X[:, at["click"]] = np.floor(np.exp(3 + value[:, at["click"]]))
        # Click counts are missing for documents that few users reach.
        is_logged = traits[:, _Trait.AUTHORITY] + rng.standard_normal(len(X)) > -0.7
        X[~is_logged, at["click"]] = np.nan
        X[:, at["query"]] = self._describe_query(rng, wishes, n_terms, idf)
        X[:, at["constant"]] = np.abs(np.rint(self.level[at["constant"]]))
        labels: _Integers = np.searchsorted(self.cuts, utility, side="right")
        return labels.astype(np.float64)

    def _describe_query(
        self, rng: np.random.Generator, wishes: _Floats, n_terms: np.float32, idf: np.float32
    ) -> _Singles:
        """Return the values of the columns that are constant within a query [columns of that family]."""
        level = self.level[self.columns["query"]]
        wish = np.resize(wishes, len(level))
        values = np.exp(level + wish + 0.3 * rng.standard_normal(len(level)))
        values[:2] = (n_terms, idf)[: len(level)]
        return values.astype(np.float32)


def _draw_results(
    rng: np.random.Generator, strengths: _Floats, *, n_queries: int, n: int
) -> tuple[_Floats, _Floats, _Floats]:
    """Draw traits [queries, n, traits], wishes [queries, wishes] and utilities [queries, n]."""
    traits = rng.standard_normal((n_queries, n, len(_Trait)))
    # Body, title and URL match together, because they share the topic of the document.
    matches = [_Trait.BODY, _Trait.TITLE, _Trait.URL]
    traits[..., matches] = 0.8 * traits[..., matches] + 0.6 * traits[..., [_Trait.TOPIC]]
    wishes = rng.standard_normal((n_queries, len(_Wish)))
    wants_site = 1 / (1 + np.exp(-2 * wishes[:, [_Wish.SITE]]))
    # Minima, thresholds and interactions cannot be learned by a linear model.
    parts = (
        (1 - wants_site) * np.minimum(traits[..., _Trait.BODY], traits[..., _Trait.TITLE]),
        wants_site * (traits[..., _Trait.URL] > 0.6) * (1 + traits[..., _Trait.AUTHORITY]),
        -1.0 * (traits[..., _Trait.SPAM] > 0.7),
        -np.abs(traits[..., _Trait.SIZE]),
        np.tanh(2 * wishes[:, [_Wish.NEWS]]) * traits[..., _Trait.AGE],
    )
    utility = sum(strength * part for strength, part in zip(strengths, parts, strict=True))
    # Queries differ in how many good documents they have, and in how noisy their judgements
    # are.
    richness = 0.5 * rng.standard_normal((n_queries, 1))
    difficulty = np.exp(0.4 * rng.standard_normal((n_queries, 1)))
    noise = difficulty * rng.standard_normal((n_queries, n))
    return traits, wishes, utility + richness + noise


def _draw_length(rng: np.random.Generator, mean: float) -> int:
    """Draw a log-normal number of documents with the given mean."""
    length = rng.lognormal(np.log(mean) - _LENGTH_SPREAD**2 / 2, _LENGTH_SPREAD)
    return max(_SHORTEST, int(np.rint(length)))
