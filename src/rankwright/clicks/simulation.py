"""Simulated click logs: lists that rankers show, and the clicks of simulated users.

All draws of an impression come from a random stream of (seed, query key). Each impression has draws of its own, so
more impressions, other queries or another order of rows do not change them. Draws about a document belong to the
document, so that two rankers meet the same users.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankwright.clicks.log import ClickLog
from rankwright.clicks.users import Lists, UserModel, user_model
from rankwright.data.dataset import RankingData
from rankwright.data.labels import as_not_relevant
from rankwright.data.queries import Queries
from rankwright.data.row_order import canonical_order
from rankwright.data.streams import Purpose, random_stream
from rankwright.support import checks

Floats = NDArray[np.float64]
_Integers = NDArray[np.int64]
_DRAWS_AT_ONCE = 1 << 20  # 8 MB
_PER_LIST, _PER_DOCUMENT = 3, 5  # draws of an impression


def simulate_clicks(
    data: RankingData,
    scores: Any = None,
    *,
    examination: Literal["position", "cascade", "dbn", "trust"] = "position",
    exponent: float | None = None,
    persistence: float | None = None,
    trust: float | None = None,
    noise: float = 0.1,
    impressions: int = 10,
    shown: int | None = 10,
    temperature: float = 0.0,
    randomise: Literal["swap", "shuffle"] | None = None,
    max_label: float | None = None,
    random_state: int = 0,
) -> ClickLog:
    """Simulate users who click in the lists that a ranker shows.

    Parameters
    ----------
    data
        Documents with graded labels: a label r is the relevance (2^r - 1) / (2^max_label - 1).
    scores
        The ranker that makes the lists: a ranker, or scores of the rows of `data`. A list of several shows each
        impression by one of them, drawn with equal chances. Without it every list is in a random order of its own.
    examination
        Which positions users examine: ``"position"`` examines position k with probability k^-exponent, ``"cascade"``
        reads from the top to the first click, ``"dbn"`` (dynamic Bayesian network) reads on until satisfied by a
        click, and ``"trust"`` is position-based with more clicks on documents that are not relevant near the top.
    exponent
        Of ``"position"`` and ``"trust"``, 1 by default; 0 is no position bias.
    persistence
        Of ``"dbn"``: probability, 0.9 by default, that a user who is not satisfied continues.
    trust
        Of ``"trust"``, 0.65 by default: at position k the noise is noise + (1 - noise) trust / k.
    noise
        Probability of a click on an examined document of label 0.
    impressions
        Number of lists shown for each query.
    shown
        Number of positions shown; None for all documents.
    temperature
        Strength of Gumbel noise added to the scores of each list: it draws lists from the Plackett-Luce distribution
        of scores / temperature.
    randomise
        ``"swap"`` exchanges, with probability 1/2, the first document of each list with one at another position,
        which is drawn with equal chances; ``"shuffle"`` puts the whole list in random order. Rows that took part
        are marked in the field ``"randomised"``, from which `estimate_propensities` learns.
    max_label
        The largest grade there is; by default the largest in `data`.
    random_state
        Equal arguments give equal logs.

    Returns
    -------
    ClickLog
        Sessions are numbers from 0 for each query. Fields: ``"ranker"``, the number of the ranker, if there are
        several, and ``"randomised"`` if documents were.

    Examples
    --------
    >>> from rankwright import make_web_search
    >>> data = make_web_search(20, kind="short")
    >>> log = simulate_clicks(data, data.X[:, 0], impressions=50)
    >>> log
    ClickLog(9650 rows, 1000 impressions of 20 queries, 706 clicks)
    >>> rate = [log.click[log.position == k].mean() for k in (1, 2, 5)]
    >>> bool(rate[0] > rate[1] > rate[2])
    True
    """
    user = user_model(examination, exponent=exponent, persistence=persistence, trust=trust)
    checks.choice("randomise", randomise, ("swap", "shuffle", None))
    checks.number("temperature", temperature, least=0)
    if scores is None and (temperature or randomise):
        option = "temperature" if temperature else "randomise"
        raise ValueError(
            f"without scores lists are in random order already; give scores, or leave out {option}."
        )
    rankers = score_rows(data, scores)

    def show(query: Candidates) -> tuple[_Integers, dict[str, NDArray[Any]]]:
        return _lists(query, rankers[:, query.rows], temperature, randomise)

    return simulated_log(data, show, user, noise, impressions, shown, max_label, random_state)


class Candidates(NamedTuple):
    """The documents of one query, in an order that does not depend on the order of rows, and random draws."""

    rows: _Integers  # rows of the data [documents]
    n_shown: int
    per_list: Floats  # uniform [impressions, 3]
    gumbel: Floats  # Gumbel [impressions, documents]
    shuffle: Floats  # uniform [impressions, documents]


def simulated_log(
    data: RankingData,
    show: Callable[[Candidates], tuple[_Integers, dict[str, NDArray[Any]]]],
    user: UserModel,
    noise: float,
    impressions: int,
    shown: int | None,
    max_label: float | None,
    seed: int,
) -> ClickLog:
    """Simulate clicks in lists that ``show`` makes: numbers of candidates [impressions, positions], and fields."""
    checks.number("noise", noise, least=0, most=1)
    checks.whole("impressions", impressions, least=1)
    if shown is not None:
        checks.whole("shown", shown, least=1)
    relevance = relevance_of(data, max_label)
    order = canonical_order(data, None)
    # Queries are simulated one after the other, each with a random stream of its own.
    parts: list[dict[str, NDArray[Any]]] = []
    bounds = np.zeros(data.n_queries + 1, dtype=np.int64)
    for q, key in enumerate(data.query_keys.tolist()):
        start, end = int(data.boundaries[q]), int(data.boundaries[q + 1])
        rows = np.arange(start, end) if order is None else order[start:end]
        n = end - start
        for first, uniform in _draws(seed, key, impressions, n):
            n_shown = n if shown is None else min(shown, n)
            by_document = uniform[:, _PER_LIST:].reshape(len(uniform), _PER_DOCUMENT, n)
            # The draws 0 to 4 of a document: Gumbel noise, shuffling, looking, liking, satisfaction.
            gumbel = -np.log(-np.log(np.maximum(by_document[:, 0], np.finfo(float).tiny)))
            query = Candidates(rows, n_shown, uniform[:, :_PER_LIST], gumbel, by_document[:, 1])
            lists, fields = show(query)
            # Looking belongs to a position, the other two to the document there.
            look = by_document[:, 2, : lists.shape[1]]
            like = np.take_along_axis(by_document[:, 3], lists, axis=1)
            satisfy = np.take_along_axis(by_document[:, 4], lists, axis=1)
            click = user.clicks(Lists(relevance[rows][lists], look, like, satisfy), noise)
            places: _Integers = np.indices(lists.shape)
            fields |= {
                "session": places[0] + first,
                "position": places[1] + 1,
                "document": rows[lists],
                "click": click,
            }
            parts.append({name: np.ravel(values) for name, values in fields.items()})
            bounds[q + 1] += lists.size
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    bounds = np.cumsum(bounds)
    return ClickLog(
        queries=Queries(data.query_ids, bounds, data.query_keys, None, bounds[:-1]),
        document=columns.pop("document"),
        position=columns.pop("position"),
        click=columns.pop("click"),
        session=columns.pop("session"),
        fields=columns,
        data=data,
    )


def relevance_of(data: RankingData, max_label: float | None) -> Floats:
    """Return the relevance (2^label - 1) / (2^max_label - 1) of each row."""
    labels = as_not_relevant(data.y)
    top = float(labels.max()) if max_label is None else max_label
    if not np.isfinite(top):
        raise ValueError(f"max_label must be finite; got {top}.")
    if top <= 0:
        raise ValueError(
            "no document has a positive label, so clicks would be noise alone; give max_label."
        )
    if labels.max() > top:
        raise ValueError(
            f"there is a label {labels.max():g} above max_label={top:g}; raise max_label."
        )
    relevance: Floats = np.expm1(labels * np.log(2)) / np.expm1(top * np.log(2))
    return relevance


def score_rows(data: RankingData, scores: Any) -> Floats:
    """Return the scores of the rows by one or several rankers [rankers, rows]; no rankers for None."""
    if scores is None:
        return np.empty((0, data.n_rows))
    # A list of numbers is one ranker; a list of lists or models has several.
    is_list = isinstance(scores, list | tuple) and len(scores) > 0
    if not is_list or (np.ndim(scores[0]) == 0 and not hasattr(scores[0], "predict")):
        scores = [scores]
    rows = []
    for ranker in scores:
        if hasattr(ranker, "predict"):
            ranker = ranker.predict(data)
        values = np.asarray(ranker, dtype=np.float64)
        if values.shape != (data.n_rows,):
            raise ValueError(
                f"scores have shape {values.shape} for {data.n_rows} rows; give one per row."
            )
        if np.isnan(values).any():
            where = data.queries.where(int(np.argmax(np.isnan(values))))
            raise ValueError(
                f"the score at {where} is NaN and cannot be ranked; check the model's output."
            )
        rows.append(values)
    return np.stack(rows)


def _draws(seed: int, key: int, impressions: int, n: int) -> Iterator[tuple[int, Floats]]:
    """Yield the uniform draws of the impressions of a query, in batches that fit into memory."""
    rng = random_stream(seed, Purpose.SHOWN_CLICKS, key)
    width = _PER_LIST + _PER_DOCUMENT * n
    step = max(1, _DRAWS_AT_ONCE // width)
    for first in range(0, impressions, step):
        yield first, rng.random((min(step, impressions - first), width))


def _lists(
    query: Candidates, rankers: Floats, temperature: float, randomise: str | None
) -> tuple[_Integers, dict[str, NDArray[Any]]]:
    """Return lists of the rankers, and the fields that say how they were made."""
    n_lists = len(query.per_list)
    fields: dict[str, NDArray[Any]] = {}
    # The ranker of each list.
    ranker = (query.per_list[:, 0] * len(rankers)).astype(np.int64)
    if len(rankers) == 0:
        lists = np.argsort(-query.gumbel, axis=1)
    elif temperature:
        lists = np.argsort(-(rankers[ranker] + temperature * query.gumbel), axis=1, kind="stable")
    else:
        lists = np.argsort(-rankers, axis=1, kind="stable")[ranker]
    lists = lists[:, : query.n_shown]
    if len(rankers) > 1:
        fields["ranker"] = np.repeat(ranker, query.n_shown)
    if len(rankers) == 0 or randomise == "shuffle":
        fields["randomised"] = np.ones(lists.shape, dtype=bool)
    if randomise == "shuffle":
        by_chance = np.argsort(np.take_along_axis(query.shuffle, lists, axis=1), axis=1)
        lists = np.take_along_axis(lists, by_chance, axis=1)
    elif randomise == "swap":
        took_part = np.zeros(lists.shape, dtype=bool)
        if query.n_shown > 1:
            place = 1 + (query.per_list[:, 1] * (query.n_shown - 1)).astype(np.int64)
            took_part[:, 0] = took_part[np.arange(n_lists), place] = True
            # Both documents took part, whether they were exchanged or not.
            swapped = np.flatnonzero(query.per_list[:, 2] < 0.5)
            upper, lower = lists[swapped, 0], lists[swapped, place[swapped]]
            lists = lists.copy()
            lists[swapped, 0], lists[swapped, place[swapped]] = lower, upper
        fields["randomised"] = took_part
    return lists, fields
