"""What a cross-validation of scikit-learn gets where it scores rows without their query ids.

With ``error_score=nan``, which is its default, scikit-learn turns an error of ``score`` into NaN and a warning, and a
search then chooses among NaN. It has no way to say that an error is not one of the parameters, but of the call. But a
score that is not a number it refuses, and shows: so there ``score`` returns one that shows the reason.
"""

from __future__ import annotations

import sys

_CALLER = ("sklearn.model_selection._validation", "_score")


class NoQueryIds(ValueError):
    """Rows to score without their queries."""


class MissingScore:
    """A score that is not a number, and shows why."""

    def __init__(self, reason: Exception) -> None:
        self._reason = reason

    def __repr__(self) -> str:
        return str(self._reason)


def error_would_be_nan() -> bool:
    """Return whether a cross-validation of scikit-learn is asking for a score and would turn an error into NaN."""
    frame = sys._getframe()
    while frame is not None:
        if (frame.f_globals.get("__name__"), frame.f_code.co_name) == _CALLER:
            return bool(frame.f_locals.get("error_score") != "raise")
        frame = frame.f_back  # type: ignore[assignment]
    return False
