"""Gradients by their definitions: double loops over documents, losses, enumerations, and a Philox of its own.

Slow and obvious on purpose; shares no code with the package. A metric is a text such as ``ndcg@3``, documents are
numbered in input order, and H is the full curvature [documents, documents].
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np
from scipy.special import erf, expit
from scipy.stats import norm

from oracles import ideal_dcg, metric_value, selected_value

Result = tuple[np.ndarray, np.ndarray, np.ndarray]  # grad, hess, H


def value(metric: str, labels: Sequence[float]) -> float:
    """Value of an order; ``own`` is the metric that the tests define themselves."""
    name, _, at = metric.partition("@")
    if name == "own":
        return _own(labels, int(at) if at else len(labels))
    return metric_value(name, labels, int(at) if at else None)


def _own(labels: Sequence[float], at: int) -> float:
    """Cascade with w_i = 1 / i^2, g = sqrt(r), d = 1 / (1 + r), Z = 1 + number of documents."""
    total, state = 0.0, 1.0
    for i, r in enumerate(labels[:at], start=1):
        total += state * math.sqrt(r) / i**2
        state /= 1 + r
    return total / (1 + len(labels))


def whole_value(metric: str, labels: Sequence[float]) -> float:
    """Value of all positions with the normaliser of the cutoff; of those of the cutoff if all positions weigh alike."""
    name, _, at = metric.partition("@")
    if name in ("precision", "recall", "success"):
        return value(metric, labels)
    if name == "ndcg":
        return metric_value("dcg", labels) / ideal_dcg(labels, int(at) if at else None)
    return value(name, labels)


def ranking(scores: Sequence[float]) -> list[int]:
    """Documents by descending score, ties in input order."""
    return sorted(range(len(scores)), key=lambda a: -scores[a])


def swap_change(
    measure: Callable[[list[float]], float], labels: Sequence[float], i: int, j: int
) -> float:
    """Change of a value when the labels at positions i and j trade places."""
    swapped = list(labels)
    swapped[i], swapped[j] = swapped[j], swapped[i]
    return measure(swapped) - measure(list(labels))


def pair_losses(
    scores: Sequence[float], labels: Sequence[float], weight: np.ndarray, sigma: float = 1.0
) -> Result:
    """Sum of W_ab log(1 + exp(-sigma (z_a - z_b))) over r_a > r_b, from a matrix of weights."""
    n = len(scores)
    grad, curvature = np.zeros(n), np.zeros((n, n))
    for a, b in itertools.permutations(range(n), 2):
        if labels[a] > labels[b] and weight[a, b] != 0:
            lost = expit(-sigma * (scores[a] - scores[b]))
            won = expit(sigma * (scores[a] - scores[b]))
            grad[a] -= sigma * weight[a, b] * lost
            grad[b] += sigma * weight[a, b] * lost
            curvature[[a, b], [a, b]] += sigma**2 * weight[a, b] * lost * won
            curvature[[a, b], [b, a]] -= sigma**2 * weight[a, b] * lost * won
    return grad, np.diag(curvature).copy(), curvature


def lambdas(
    scores: Sequence[float],
    labels: Sequence[float],
    metric: str,
    *,
    sigma: float = 1.0,
    full: set[int] | None = None,
    truncate_delta: bool = False,
    normalize: bool = False,
    variant: str = "lambdamart",
    mu: float = 5.0,
    offset: int = 0,
    inverse: Sequence[float] | None = None,
) -> Result:
    """LambdaMART and LambdaLoss, over pairs with at least one document in ``full`` (all by default).

    ``inverse`` weighs a pair by its better document.
    """
    n = len(scores)
    order = ranking(scores)
    position = {a: i for i, a in enumerate(order)}
    in_order = [labels[a] for a in order]
    measure = (lambda r: value(metric, r)) if truncate_delta else (lambda r: whole_value(metric, r))
    weight = np.zeros((n, n))
    for a, b in itertools.permutations(range(n), 2):
        if labels[a] > labels[b] and (full is None or a in full or b in full):
            i, j = position[a], position[b]
            if variant in ("lambdamart", "ndcg-loss2++"):
                weight[a, b] += abs(swap_change(measure, in_order, i, j))
            if variant in ("ndcg-loss2", "ndcg-loss2++"):
                apart = abs(i - j) + offset
                gap = 1 / math.log2(1 + apart) - 1 / math.log2(2 + apart)
                gains = (2 ** labels[a] - 2 ** labels[b]) / _ideal(metric, labels)
                weight[a, b] += (mu if variant == "ndcg-loss2++" else 1) * gains * gap
            if variant == "ndcg-loss1":
                shown = 0 if truncate_delta and i >= int(metric.partition("@")[2]) else 1
                weight[a, b] = (
                    shown * (2 ** labels[a] - 1) / math.log2(2 + i) / _ideal(metric, labels)
                )
            if normalize and max(scores) != min(scores):
                weight[a, b] /= 0.01 + abs(scores[a] - scores[b])
    weight *= 1.0 if inverse is None else np.reshape(inverse, (n, 1))
    grad, hess, curvature = pair_losses(scores, labels, weight, sigma)
    if normalize:
        both = 2 * sum(
            sigma * weight[a, b] * expit(-sigma * (scores[a] - scores[b]))
            for a, b in itertools.permutations(range(n), 2)
        )
        factor = math.log2(1 + both) / both if both > 0 else 1.0
        grad, hess, curvature = factor * grad, factor * hess, factor * curvature
    return grad, hess, curvature


def _ideal(metric: str, labels: Sequence[float]) -> float:
    name, _, at = metric.partition("@")
    return ideal_dcg(labels, int(at) if at else None) if name == "ndcg" else 1.0


def extensions(
    scores: Sequence[float], labels: Sequence[float], k: int, strategy: str, selection: str
) -> list[set[int]]:
    """Every set of missed documents that a Lambda-eX strategy may add to the top k (paper, section 4.2).

    A true document of the top is relevant and has a label of the ideal top; ``"paper"`` takes all others there as
    false ones, ``"literal"`` only those whose label is not in the ideal top.
    """
    order = ranking(scores)
    ideal = sorted(labels, reverse=True)[:k]
    top = [labels[a] for a in order[:k]]
    missed = [a for a in order[k:] if labels[a] > 0 and labels[a] in ideal]
    if strategy.startswith("all-"):
        every_relevant = all(r in ideal for r in labels if r > 0)
        strategy = strategy.removeprefix("all-") if every_relevant else "all"
    if selection in ("paper", "literal"):
        true = [r for r in top if r in ideal and (r > 0 or selection == "literal")]
        wanted = [(missed, len(top) - len(true))]
    else:
        needs = {r: ideal.count(r) - top.count(r) for r in set(ideal)}
        wanted = [
            ([a for a in missed if labels[a] == r], need) for r, need in needs.items() if need > 0
        ]
    choices = []
    for pool, number in wanted:
        number = len(pool) if strategy == "all" else min(number, len(pool))
        choices.append(
            [pool[:number]] if strategy != "random" else list(itertools.combinations(pool, number))
        )
    return [set(itertools.chain(*choice)) for choice in itertools.product(*choices)]


def mean_of(results: Sequence[Result]) -> Result:
    grads, hesses, curvatures = zip(*results, strict=True)
    return np.mean(grads, axis=0), np.mean(hesses, axis=0), np.mean(curvatures, axis=0)


def yeti(
    scores: Sequence[float],
    labels: Sequence[float],
    metric: str,
    noisy: Sequence[Sequence[float]],
    neighbours: int,
    inverse: Sequence[float] | None = None,
) -> Result:
    """Pairs at most ``neighbours`` apart in each noisy ranking, losses at the clean scores; ``inverse`` as above."""
    n = len(scores)
    weight = np.zeros((n, n))
    for ranked in noisy:
        order = ranking(ranked)
        in_order = [labels[a] for a in order]
        for i, j in itertools.permutations(range(n), 2):
            if abs(i - j) <= neighbours:
                change = swap_change(lambda r: value(metric, r), in_order, i, j)
                weight[order[i], order[j]] += abs(change) / len(noisy)
    weight *= 1.0 if inverse is None else np.reshape(inverse, (n, 1))
    return pair_losses(scores, labels, weight)


def yeti_untruncated(
    scores: Sequence[float],
    labels: Sequence[float],
    at: int,
    noisy: Sequence[Sequence[float]],
    neighbours: int,
) -> Result:
    """YetiLoss for NDCG with the change of eq. (9): that of DCG without a cutoff, over the ideal DCG at the cutoff."""
    grad, hess, curvature = yeti(scores, labels, "dcg", noisy, neighbours)
    ideal = ideal_dcg(labels, at)
    return grad / ideal, hess / ideal, curvature / ideal


def yeti_catboost_map(
    scores: Sequence[float],
    labels: Sequence[float],
    at: int,
    noisy: Sequence[Sequence[float]],
    neighbours: int,
) -> Result:
    """YetiLoss for MAP with CatBoost's weights: 1 / i and 1 / k of each relevant document between positions i and j."""
    n = len(scores)
    weight = np.zeros((n, n))
    for ranked in noisy:
        order = ranking(ranked)
        relevant = [labels[a] >= 1 for a in order]
        for i, j in itertools.combinations(range(n), 2):
            if j - i <= neighbours and i < at and relevant[i] != relevant[j]:
                between = sum(1 / (k + 1) for k in range(i + 1, j) if relevant[k])
                weight[order[i], order[j]] += (1 / (i + 1) + between) / len(noisy)
    return pair_losses(scores, labels, weight + weight.T)


_BINARY = ("mrr", "map", "rbp", "precision", "recall", "success")  # eq. (4): r is 0 or 1
_CASCADES = ("err", "pfound")  # eq. (3): r in [0, 1], the grade divided by the largest grade


def relevance(metric: str, labels: Sequence[float]) -> list[float]:
    """StochasticRank's r, from section 2 of the paper and section 4.1 of "Which Tricks"; grades are 0 to 4."""
    name = metric.partition("@")[0]
    if name in _BINARY:
        return [float(r >= 1) for r in labels]
    if name in _CASCADES:
        return [r / 4 for r in labels]
    return [float(r) for r in labels]


def expected_jumps(
    scores: Sequence[float],
    labels: Sequence[float],
    metric: str,
    noise: Sequence[float],
    sigma: float,
    mu: float,
    neighbours_only: bool = False,
    shift: bool = True,
) -> np.ndarray:
    """Conditional coordinate sampling for one noise vector: every jump from two values of the metric.

    With ``neighbours_only``, only jumps over documents that are neighbours by the scores without noise. Without
    ``shift``, theorem 3 as printed: the noise of all other documents is held. With it, only their differences are, so
    that the noise of the document less their mean is integrated, which has the variance 1 + 1 / (n - 1).
    """
    n = len(scores)
    width = sigma * math.sqrt(1 + 1 / (n - 1)) if shift else sigma
    place_of = {a: place for place, a in enumerate(ranking(scores))}
    clean = [z - sigma * mu * r for z, r in zip(scores, relevance(metric, labels), strict=True)]
    noisy = [c + sigma * e for c, e in zip(clean, noise, strict=True)]
    grad = np.zeros(n)
    for j in range(n):
        others = sorted((a for a in range(n) if a != j), key=lambda a: -noisy[a])
        mean = sum(noise[a] for a in others) / len(others) if shift else 0.0
        for place, u in enumerate(others):
            if neighbours_only and abs(place_of[u] - place_of[j]) > 1:
                continue
            above = [labels[a] for a in [*others[:place], j, *others[place:]]]
            below = [labels[a] for a in [*others[: place + 1], j, *others[place + 1 :]]]
            density = norm.pdf(noisy[u] - sigma * mean, clean[j], width)
            grad[j] -= (value(metric, above) - value(metric, below)) * density
    return grad


def smoothed_gradient(
    scores: Sequence[float], labels: Sequence[float], metric: str, sigma: float, mu: float
) -> np.ndarray:
    """Gradient of -E M(z - sigma mu r + sigma eps) for two or three documents, in closed form.

    The order a > b > c has the chance Phi2(x, y; -1/2) with x, y the two differences over sqrt(2) sigma, whose
    derivative by x is phi(x) Phi((y + x / 2) / sqrt(3 / 4)).
    """
    n = len(scores)
    clean = [z - sigma * mu * r for z, r in zip(scores, relevance(metric, labels), strict=True)]
    unit = math.sqrt(2) * sigma
    grad = np.zeros(n)
    for order in itertools.permutations(range(n)):
        worth = value(metric, [labels[a] for a in order])
        gaps = [(clean[a] - clean[b]) / unit for a, b in itertools.pairwise(order)]
        for i, x in enumerate(gaps):
            slope = norm.pdf(x) / unit
            if n == 3:
                slope *= norm.cdf((gaps[1 - i] + x / 2) / math.sqrt(0.75))
            grad[order[i]] -= worth * slope
            grad[order[i + 1]] += worth * slope
    return grad


def score_function_gradients(
    scores: Sequence[float],
    labels: Sequence[float],
    metric: str,
    sigma: float,
    mu: float,
    noise: np.ndarray,
) -> np.ndarray:
    """The log-derivative estimate -(M(z + sigma eps) - M(z)) eps / sigma, one row per noise vector."""
    clean = np.asarray(scores) - sigma * mu * np.asarray(relevance(metric, labels))

    @np.vectorize(signature="(n)->()")
    def worth(ranked: np.ndarray) -> float:
        order = tuple(ranking(ranked.tolist()))
        if order not in known:
            known[order] = value(metric, [labels[a] for a in order])
        return known[order]

    known: dict[tuple[int, ...], float] = {}
    gained = worth(clean + sigma * noise) - worth(clean)
    return -gained[:, None] * noise / sigma


def selection_gradient(
    scores: Sequence[float], labels: Sequence[float], sigma: float, at: int | None
) -> np.ndarray:
    """Gradient of -E DCG-RR by enumeration of what is selected, each document with chance Phi(z / sigma)."""
    n = len(scores)
    chances = norm.cdf(np.asarray(scores) / sigma)
    slopes = norm.pdf(np.asarray(scores) / sigma) / sigma
    grad = np.zeros(n)
    for chosen in itertools.product((True, False), repeat=n):
        worth = selected_value([1 if c else -1 for c in chosen], labels, at)
        for a in range(n):
            rest = math.prod(
                chances[b] if chosen[b] else 1 - chances[b] for b in range(n) if b != a
            )
            grad[a] -= worth * rest * (slopes[a] if chosen[a] else -slopes[a])
    return grad


def scale_free(
    grad: np.ndarray, scores: Sequence[float], nu: float, centred: bool = True
) -> np.ndarray:
    """Centre a gradient, then take out <g, z> z / (|z| + nu)^2."""
    z = np.asarray(scores, dtype=float)
    if centred:
        z = z - z.mean()
        grad = grad - grad.mean()
    return grad - (grad @ z) * z / (np.sqrt(z @ z) + nu) ** 2


def softrank_loss(
    scores: Sequence[float], labels: Sequence[float], metric: str, sigma: float
) -> float:
    """Minus the expected metric when the rank of each document counts independent contests lost."""
    n = len(scores)
    total = 0.0
    for j in range(n):
        chance = np.zeros(n)
        chance[0] = 1.0
        for i in range(n):
            if i != j:
                lost = 0.5 * (1 + erf((scores[i] - scores[j]) / (2 * sigma)))
                chance = lost * np.concatenate(([0.0], chance[:-1])) + (1 - lost) * chance
        for r in range(n):
            # What j earns at rank r: the metric of a list in which nothing else earns anything, times its normaliser.
            alone = [0.0] * n
            alone[r] = labels[j]
            name, _, at = metric.partition("@")
            worth = metric_value("dcg" if name == "ndcg" else name, alone, int(at) if at else None)
            total += chance[r] * worth / _ideal(metric, labels)
    return -total


def softmax(values: Sequence[float]) -> np.ndarray:
    powers = np.exp(np.asarray(values, dtype=float) - max(values))
    return powers / powers.sum()


def cross_entropy(scores: Sequence[float], phi: np.ndarray, epsilon: float) -> float:
    """-sum phi z + log(sum exp z + epsilon exp(max z))."""
    z = np.asarray(scores, dtype=float)
    highest = z.max()
    return float(-phi @ (z - highest) + math.log(np.exp(z - highest).sum() + epsilon))


def xendcg_target(labels: Sequence[float], gamma: Sequence[float] | float) -> np.ndarray:
    parts = np.exp2(np.asarray(labels, dtype=float)) - gamma
    return parts / parts.sum()


def xendcg_newton(scores: Sequence[float], phi: np.ndarray, epsilon: float) -> np.ndarray:
    """D times (I + S + S^2) D^-1 grad, S = D^-1 O, where H = D - O and D is diagonal."""
    z = np.asarray(scores, dtype=float)
    powers = np.exp(z - z.max())
    rho = powers / (powers.sum() + epsilon)
    hessian = np.diag(rho) - np.outer(rho, rho)
    diagonal = np.diag(np.diag(hessian))
    s = np.linalg.inv(diagonal) @ (diagonal - hessian)
    step = (np.eye(len(z)) + s + s @ s) @ np.linalg.inv(diagonal) @ (rho - phi)
    return diagonal @ step


def slopes(
    loss: Callable[[np.ndarray], float], scores: Sequence[float], step: float = 1e-5
) -> np.ndarray:
    """Central differences of a loss."""
    z = np.asarray(scores, dtype=float)
    unit = np.eye(len(z)) * step
    return np.array([(loss(z + unit[a]) - loss(z - unit[a])) / (2 * step) for a in range(len(z))])


def philox(counter: Sequence[int], key: Sequence[int]) -> list[int]:
    """Philox 4x32-10 (Salmon et al., 2011) on Python's integers."""
    c, (k0, k1) = list(counter), key
    for _ in range(10):
        high0, low0 = divmod(0xD2511F53 * c[0], 2**32)
        high1, low1 = divmod(0xCD9E8D57 * c[2], 2**32)
        c = [high1 ^ c[1] ^ k0, low1, high0 ^ c[3] ^ k1, low0]
        k0, k1 = (k0 + 0x9E3779B9) % 2**32, (k1 + 0xBB67AE85) % 2**32
    return c


def uniforms(n: int, stream: int, query_key: int, draw: int) -> np.ndarray:
    """The first n uniforms of one vector: two per block of the counter, 52 bits each, in the open interval."""
    drawn = []
    for block in range((n + 1) // 2):
        counter = [block, draw, query_key % 2**32, query_key >> 32]
        a, b, c, d = philox(counter, [stream % 2**32, stream >> 32])
        drawn += [(((b << 32) | a) >> 12), (((d << 32) | c) >> 12)]
    return (np.array(drawn[:n], dtype=float) + 0.5) / 2**52


def noise(kind: str, n: int, stream: int, query_key: int, draw: int) -> np.ndarray:
    """Standard draws by name; Gaussian ones by Box and Muller from pairs of uniforms."""
    u = uniforms(n + n % 2, stream, query_key, draw)
    if kind == "gaussian":
        radius, angle = np.sqrt(-2 * np.log(u[::2])), 2 * np.pi * u[1::2]
        return np.column_stack((radius * np.cos(angle), radius * np.sin(angle))).ravel()[:n]
    return {"logistic": np.log(u / (1 - u)), "gumbel": -np.log(-np.log(u)), "uniform": u}[kind][:n]
