"""Interleaving: one list from two rankers, and the clicks that count for each.

Team draft: in rounds, a coin decides which ranker picks first; each picks its best document that is not in the list
yet, and clicks count for the ranker that picked the document (Radlinski, Kurup and Joachims, CIKM 2008).

Balanced: a coin decides once which ranker starts; the list then takes from both so that its first k documents contain
about as many of the best documents of each. Let k be the better of the two ranks of the lowest clicked document: clicks
on the best k documents of a ranker count for it (Joachims, KDD 2002).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from rankwright.clicks.log import ClickLog
from rankwright.clicks.simulation import Candidates, score_rows, simulated_log
from rankwright.clicks.users import user_model
from rankwright.data.dataset import RankingData
from rankwright.data.queries import as_floats, query_keys
from rankwright.data.streams import Purpose, random_stream
from rankwright.support import checks

Floats = NDArray[np.float64]
_Integers = NDArray[np.int64]
Method = Literal["team-draft", "balanced"]
_LENGTH = 10


@dataclass(frozen=True)
class InterleavedList:
    """A list to show, made of two rankings by `interleave`.

    Attributes
    ----------
    documents : list
        The list.
    team : list of str
        Ranker that picked each document, ``"a"`` or ``"b"``: team draft credits it.
    rank_a, rank_b : list of int
        Rank of each document in each ranking, 0 if it is not there: balanced interleaving credits by them.

    Examples
    --------
    >>> shown = interleave(["x", "y", "z"], ["y", "z", "x"], method="balanced", length=2, key="session 1")
    >>> shown.documents, shown.rank_a, shown.rank_b
    (['y', 'x'], [2, 1], [1, 3])
    """

    documents: list[Any]
    team: list[str]
    rank_a: list[int]
    rank_b: list[int]


def interleave(
    a: Sequence[Hashable],
    b: Sequence[Hashable],
    *,
    method: Method = "team-draft",
    length: int | None = None,
    key: Hashable = 0,
    random_state: int = 0,
) -> InterleavedList:
    """Make one list of two rankings.

    Log each document that was shown with its ``team`` (team draft) or its ``rank_a`` and ``rank_b`` (balanced), and
    give the log to `compare_interleaved`.

    Parameters
    ----------
    a, b
        Ids of documents, the best first.
    method
        ``"team-draft"`` or ``"balanced"``; the head of `rankwright.clicks.interleaving` explains them.
    length
        Length of the list, at most the length of the shorter ranking; by default this length or 10.
    key
        Decides the coins together with the seed. Give each list a key of its own, for example (query, session).
    random_state
        Equal seeds and keys give equal coins.

    Examples
    --------
    >>> shown = interleave(["x", "y", "z"], ["y", "z", "x"], key=("query 1", "session 1"))
    >>> sorted(shown.documents), sorted(shown.team[:2])
    (['x', 'y', 'z'], ['a', 'b'])
    """
    a, b = list(a), list(b)
    _check_method(method)
    for name, ranking in (("a", a), ("b", b)):
        if len(set(ranking)) < len(ranking):
            raise ValueError(f"ranking {name} has a document twice; give each once.")
    shorter = min(len(a), len(b))
    if length is None:
        length = min(_LENGTH, shorter)
    checks.whole("length", length)
    if not 1 <= length <= shorter:
        raise ValueError(
            f"a list of {length} documents needs rankings of at least as many, and at least 1; "
            f"they have {len(a)} and {len(b)}."
        )
    # The coins depend on the key alone, so a list can be made again.
    candidates = list(dict.fromkeys([*a, *b]))
    number = {document: i for i, document in enumerate(candidates)}
    ids = np.empty(1, dtype=object)
    ids[0] = key
    coins = random_stream(random_state, Purpose.INTERLEAVING, int(query_keys(ids)[0])).random(
        (1, length)
    )
    order_a, order_b = (np.array([number[document] for document in ranking]) for ranking in (a, b))
    lists, by_b = _MAKERS[method](order_a, order_b, coins, length)
    documents = [candidates[i] for i in lists[0].tolist()]
    rank_a, rank_b = (
        {document: rank for rank, document in enumerate(ranking, 1)} for ranking in (a, b)
    )
    return InterleavedList(
        documents,
        np.where(by_b[0], "b", "a").tolist(),
        [rank_a.get(document, 0) for document in documents],
        [rank_b.get(document, 0) for document in documents],
    )


def simulate_interleaving(
    data: RankingData,
    a: Any,
    b: Any,
    *,
    method: Method = "team-draft",
    examination: Literal["position", "cascade", "dbn", "trust"] = "position",
    exponent: float | None = None,
    persistence: float | None = None,
    trust: float | None = None,
    noise: float = 0.1,
    impressions: int = 10,
    shown: int = 10,
    max_label: float | None = None,
    random_state: int = 0,
) -> ClickLog:
    """Simulate users who click in interleaved lists of two rankers.

    Parameters
    ----------
    data
        Documents with graded labels.
    a, b
        The rankers, or scores of the rows of `data`.
    method
        ``"team-draft"`` or ``"balanced"``.
    examination, exponent, persistence, trust, noise, impressions, shown, max_label, random_state
        As in `simulate_clicks`.

    Returns
    -------
    ClickLog
        With the fields ``"team"``, ``"rank_a"`` and ``"rank_b"``.

    Examples
    --------
    >>> from rankwright import compare_interleaved, make_web_search
    >>> data = make_web_search(50, kind="short", n_features=20)
    >>> log = simulate_interleaving(data, data.X[:, 0], data.y)
    >>> result = compare_interleaved(log)
    >>> result.wins_b > result.wins_a
    True
    """
    _check_method(method)
    user = user_model(examination, exponent=exponent, persistence=persistence, trust=trust)
    scores = np.concatenate((score_rows(data, a), score_rows(data, b)))
    if len(scores) != 2:
        raise ValueError(f"interleaving compares two rankers; got {len(scores)}.")

    def show(query: Candidates) -> tuple[_Integers, dict[str, NDArray[Any]]]:
        orders = np.argsort(-scores[:, query.rows], axis=1, kind="stable")
        lists, by_b = _MAKERS[method](orders[0], orders[1], query.shuffle, query.n_shown)
        # The inverse of an order has the rank of each document.
        ranks = np.argsort(orders, axis=1) + 1
        return lists, {
            "team": np.where(by_b, "b", "a"),
            "rank_a": ranks[0][lists],
            "rank_b": ranks[1][lists],
        }

    return simulated_log(data, show, user, noise, impressions, shown, max_label, random_state)


def click_credit(log: ClickLog, method: Method) -> tuple[_Integers, _Integers]:
    """Return the clicks that count for each ranker [impressions]."""
    _check_method(method)
    impression, n = log.impression, log.n_impressions
    if method == "team-draft":
        team = _field(log, "team", method)
        for_a, for_b = (log.click & (team == name) for name in "ab")
        if not np.isin(team, ("a", "b")).all():
            raise ValueError("the field 'team' must be 'a' or 'b' in every row.")
    else:
        rank_a, rank_b = (_ranks(log, name, method) for name in ("rank_a", "rank_b"))
        # Users have read down to the lowest click, so each ranking counts to its depth.
        is_lowest = log.position == log.last_click[impression]
        depth = np.zeros(n)
        depth[impression[is_lowest]] = np.minimum(rank_a, rank_b)[is_lowest]
        for_a, for_b = (log.click & (rank <= depth[impression]) for rank in (rank_a, rank_b))
    return np.bincount(impression[for_a], minlength=n), np.bincount(impression[for_b], minlength=n)


def _team_draft(
    order_a: _Integers, order_b: _Integers, coins: Floats, length: int
) -> tuple[_Integers, NDArray[np.bool_]]:
    """Return lists of documents, and whether b picked each [lists, length]; coins are uniform [lists, length]."""
    n_lists = len(coins)
    used = np.zeros((n_lists, max(order_a.max(), order_b.max()) + 1), dtype=bool)
    lists = np.empty((n_lists, length), dtype=np.int64)
    by_b = np.empty((n_lists, length), dtype=bool)
    for place in range(length):
        # A coin decides who picks first in a round; the second pick of the round is the other's.
        by_b[:, place] = coins[:, place] < 0.5 if place % 2 == 0 else ~by_b[:, place - 1]
        best_a, best_b = (order[np.argmin(used[:, order], axis=1)] for order in (order_a, order_b))
        lists[:, place] = np.where(by_b[:, place], best_b, best_a)
        used[np.arange(n_lists), lists[:, place]] = True
    return lists, by_b


def _balanced(
    order_a: _Integers, order_b: _Integers, coins: Floats, length: int
) -> tuple[_Integers, NDArray[np.bool_]]:
    """Return the same as `_team_draft`. Only the first coin counts, so there are two different lists."""
    both = []
    for b_first in (False, True):
        picked: dict[int, bool] = {}
        taken = [0, 0]
        while len(picked) < length:
            # The ranker that is behind adds its next document, which may be in the list already.
            by_b = taken[1] < taken[0] or (taken[0] == taken[1] and b_first)
            picked.setdefault(int((order_b if by_b else order_a)[taken[by_b]]), by_b)
            taken[by_b] += 1
        both.append(picked)
    starts = (coins[:, 0] < 0.5).astype(np.int64)
    lists = np.array([list(picked) for picked in both])[starts]
    by_ranker_b = np.array([list(picked.values()) for picked in both])[starts]
    return lists, by_ranker_b


_MAKERS = {"team-draft": _team_draft, "balanced": _balanced}


def _check_method(method: str) -> None:
    checks.choice("method", method, _MAKERS)


def _field(log: ClickLog, name: str, method: str) -> NDArray[Any]:
    if name not in log.fields:
        raise ValueError(
            f"the log has no field {name!r}, which {method} interleaving needs; log what "
            "interleave gives."
        )
    return log.fields[name]


def _ranks(log: ClickLog, name: str, method: str) -> Floats:
    """Return ranks. A document that a ranking does not have comes after all others."""
    values = _field(log, name, method)
    ranks = as_floats(
        values, f"the field {name!r} must hold ranks, 0 where the ranking lacks the document."
    )
    return np.where(ranks > 0, ranks, np.inf)
