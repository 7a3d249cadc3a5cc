"""Write a metric and an objective of your own, and train with them."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

import rankwright as rw
from rankwright.objectives import Gradient, Objective


@dataclass(frozen=True)
class Carousel(rw.Metric):
    """Value of the three places of a carousel: the first counts twice as much as the others."""

    name: ClassVar[str] = "carousel"

    def weights(self, n: int) -> np.ndarray:
        return np.array([2.0, 1.0, 1.0] + [0.0] * n)[:n]

    def gains(self, labels: np.ndarray) -> np.ndarray:
        return labels


@dataclass(frozen=True)
class Centred(Objective):
    """Squared error of scores and labels around the middle grade."""

    name: ClassVar[str] = "centred"
    middle: float = 2.0

    def prepare(self, problem):
        return CentredErrors(problem, self.middle)


class CentredErrors(Gradient):
    def __init__(self, problem, middle):
        super().__init__(problem)
        self.target = problem.labels - middle

    def add(self, q0, q1, scores, stream, grad, hess):
        rows = slice(self.bounds[q0], self.bounds[q1])
        grad[rows] += scores[rows] - self.target[rows]
        hess[rows] += 1


data = rw.make_web_search(200, kind="short", n_features=20, random_state=1)
train, test = data.split(0.4, random_state=1)
for objective in ("lambdamart", "centred", "lambdamart + 0.1 centred(middle=1)"):
    ranker = rw.Ranker(objective, metric="carousel", n_estimators=60, verbose=0).fit(train)
    print(f"{objective:<36}{ranker.score(test):.3f}")
