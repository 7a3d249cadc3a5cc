"""An objective such as a user writes; defined once, since objectives are known by name."""

from dataclasses import dataclass
from typing import ClassVar

from rankwright import Choice, Range
from rankwright.objectives import Gradient, Objective


@dataclass(frozen=True)
class OwnLoss(Objective):
    """Squared error of scores and shifted labels; ``note`` does nothing."""

    name: ClassVar[str] = "own-loss"
    search: ClassVar[dict[str, Range | Choice]] = {"shift": Range(0.5, 2.0)}
    shift: float = 1.0
    note: str = ""

    def prepare(self, problem):
        return ShiftedErrors(problem, self.shift)


class ShiftedErrors(Gradient):
    def __init__(self, problem, shift):
        super().__init__(problem)
        self.target = problem.labels + shift

    def add(self, q0, q1, scores, stream, grad, hess):
        rows = slice(self.bounds[q0], self.bounds[q1])
        grad[rows] += scores[rows] - self.target[rows]
        hess[rows] += 1
