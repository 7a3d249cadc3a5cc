"""Make a data set harder: noisy labels, added documents that are not relevant, and clicks.

Each query has its own random stream. It depends on the seed and the query's id alone, so the other
queries of the data set change nothing.

Reference: Bruch, "An Alternative Cross Entropy Loss for Learning-to-Rank", WWW 2021, section 5.4 and
appendix E.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from rankwright.data.dataset import RankingData
from rankwright.data.on_disk import take_rows
from rankwright.data.streams import Purpose, random_stream
from rankwright.support import checks

__all__ = ["with_added_negatives", "with_clicks", "with_label_noise"]

_Integers = NDArray[np.int64]

_LABEL_REDRAW = np.array([0.5, 0.2, 0.15, 0.1, 0.05])
_CLICK_PROBABILITY = np.array([0.05, 0.3, 0.5, 0.7, 0.95])


def with_label_noise(data: RankingData, share: float, *, seed: int = 0) -> RankingData:
    """Redraw labels at random: 0 to 4 with probabilities .5, .2, .15, .1 and .05.

    A redrawn label may equal the old one, so fewer than `share` of the labels change. Departs from
    the paper: each document is redrawn with probability `share`, but the paper redraws a random
    subset of each query's documents.

    Parameters
    ----------
    data
        Data with labels 0 to 4.
    share
        Probability, for each document, that its label is redrawn.
    seed
        Random seed. Equal data and seeds give equal results.

    Returns
    -------
    RankingData
        The same documents in the same order, with the new labels.

    Examples
    --------
    >>> from rankwright import make_web_search
    >>> data = make_web_search(20)
    >>> noisy = with_label_noise(data, 0.5)
    >>> bool(0.2 < (noisy.y != data.y).mean() < 0.4)
    True
    """
    checks.number("share", share, least=0, most=1)
    labels = _grades(data).astype(np.float64)
    for start, end, key in _each_query(data):
        rng = random_stream(seed, Purpose.LABEL_NOISE, key)
        is_redrawn = rng.random(end - start) < share
        new_labels = rng.choice(len(_LABEL_REDRAW), size=end - start, p=_LABEL_REDRAW)
        labels[start:end][is_redrawn] = new_labels[is_redrawn]
    return data.with_rows(data.X, labels, data.qid, data.weights, data.fields)


def with_added_negatives(data: RankingData, share: float, *, seed: int = 0) -> RankingData:
    """Add documents of other queries to each query's list, with label 0.

    Departs from the paper: documents are drawn uniformly from all other rows, without repetition,
    but the paper's formula draws a query first and then one of its documents.

    Parameters
    ----------
    data
        Data with at least two queries.
    share
        Growth of each list: n documents become n + round(share * n). It may exceed 1.
    seed
        Random seed. Equal data and seeds give equal results.

    Returns
    -------
    RankingData
        The documents of each query in their order, then the added ones: distinct rows of `data`. If
        there are weights, an added document has the mean weight of the query's first documents.

    Examples
    --------
    >>> data = RankingData([[1.0], [2.0], [3.0], [4.0]], [1, 2, 3, 4], qid=[1, 1, 2, 2])
    >>> longer = with_added_negatives(data, 0.5)
    >>> longer.group.tolist(), longer.y.tolist()
    ([3, 3], [1.0, 2.0, 0.0, 3.0, 4.0, 0.0])
    """
    checks.number("share", share, least=0)
    n_added = np.rint(np.minimum(share * data.group, 2.0 * data.n_rows)).astype(np.int64)
    n_others = data.n_rows - data.group
    if np.any(n_added > n_others):
        q = int(np.argmax(n_added > n_others))
        raise ValueError(
            f"query {data.query_ids[q]} needs {n_added[q]} documents of other queries, which have "
            f"only {n_others[q]}. Lower share={share} or give more queries."
        )
    rows: list[_Integers] = []
    for (start, end, key), n in zip(_each_query(data), n_added, strict=True):
        rng = random_stream(seed, Purpose.NEGATIVES, key)
        # Numbers are drawn as if the query's rows were cut out; later rows are moved behind it again.
        drawn = rng.choice(data.n_rows - (end - start), size=n, replace=False)
        rows.append(np.arange(start, end))
        rows.append(np.where(drawn < start, drawn, drawn + end - start))
    source = np.concatenate(rows)
    lengths = data.group + n_added
    is_given = np.repeat(np.tile([True, False], data.n_queries), [len(part) for part in rows])
    weights = None
    if data.weights is not None:
        means = np.add.reduceat(data.weights, data.boundaries[:-1]) / data.group
        weights = np.where(is_given, data.weights[source], np.repeat(means, lengths))
    labels = np.where(is_given, data.y[source], 0.0)
    fields = {name: values[source] for name, values in data.fields.items()}
    qid = np.repeat(data.query_ids, lengths)
    return data.with_rows(take_rows(data.X, source), labels, qid, weights, fields)


def with_clicks(
    data: RankingData, noise: float = 0.05, *, impressions: int = 10, seed: int = 0
) -> RankingData:
    """Replace graded labels by the clicks of simulated users.

    A user looks at a query's documents one by one, in random order, clicks with a probability that
    depends on the label (`noise`, .3, .5, .7, .95 for 0 to 4) and leaves after the first click: the
    cascade model. The documents that the user looked at form an impression, a query by itself. The
    last document, the clicked one, has label 1 and the others 0. Departs from the paper: an
    impression without a click is left out, so there may be fewer than `impressions` for each query.

    Parameters
    ----------
    data
        Data with labels 0 to 4.
    noise
        Click probability of a document that is not relevant.
    impressions
        Number of users for each query.
    seed
        Random seed. Equal data and seeds give equal results.

    Returns
    -------
    RankingData
        The impressions. Number i, from 0, of query "a" has the id "a/i". Ids are text, and queries
        are sorted by id as in all data.

    Examples
    --------
    >>> from rankwright import make_web_search
    >>> clicked = with_clicks(make_web_search(5), impressions=3)
    >>> clicked.query_ids[:4].tolist()
    ['1/0', '1/1', '1/2', '2/0']
    >>> bool((clicked.y[clicked.boundaries[1:] - 1] == 1).all())
    True
    """
    checks.number("noise", noise, least=0, most=1)
    checks.whole("impressions", impressions, least=1)
    names = [str(name) for name in data.query_ids.tolist()]
    if len(set(names)) < len(names):
        raise ValueError(
            "two query ids are the same as text (such as 1 and '1'), so their impressions would "
            "merge. Give the queries ids that differ as text."
        )
    click_probability = np.array([noise, *_CLICK_PROBABILITY[1:]])[_grades(data)]
    rows: list[_Integers] = []
    sizes: list[_Integers] = []
    ids: list[str] = []
    for (start, end, key), name in zip(_each_query(data), names, strict=True):
        rng = random_stream(seed, Purpose.CLICKS, key)
        ranking = rng.permuted(np.tile(np.arange(start, end), (impressions, 1)), axis=1)
        is_clicked = rng.random(ranking.shape) < click_probability[ranking]
        n_seen = np.where(is_clicked.any(axis=1), is_clicked.argmax(axis=1) + 1, 0)
        rows.append(ranking[np.arange(end - start) < n_seen[:, None]])
        sizes.append(n_seen[n_seen > 0])
        ids += [f"{name}/{i}" for i in np.flatnonzero(n_seen)]
    if not ids:
        raise ValueError(
            f"no impression has a click: {impressions} for each of {data.n_queries} queries. "
            "Raise noise or impressions, or give queries with relevant documents."
        )
    source = np.concatenate(rows)
    lengths = np.concatenate(sizes)
    labels = np.zeros(len(source))
    labels[np.cumsum(lengths) - 1] = 1.0
    weights = None
    if data.weights is not None:
        weights = data.weights[source]
    fields = {name: values[source] for name, values in data.fields.items()}
    return data.with_rows(
        take_rows(data.X, source), labels, np.repeat(ids, lengths), weights, fields
    )


def _each_query(data: RankingData) -> Iterator[tuple[int, int, int]]:
    """Yield the first row, the end and the key of each query."""
    bounds = data.boundaries.tolist()
    return zip(bounds[:-1], bounds[1:], data.query_keys.tolist(), strict=True)


def _grades(data: RankingData) -> _Integers:
    """Return the labels as whole numbers; raise ValueError for labels other than 0 to 4."""
    grades = np.clip(data.y, 0, len(_LABEL_REDRAW) - 1).astype(np.int64)
    if np.any(grades != data.y):
        row = int(np.argmax(grades != data.y))
        raise ValueError(
            f"labels must be 0, 1, 2, 3 or 4; got {data.y[row]:g} at {data.queries.where(row)}. "
            "Map the labels to these grades first."
        )
    return grades
