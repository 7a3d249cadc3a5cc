"""Refusals, which become answers with a reason."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_LONGEST_VALUE = 40  # characters of a value in a reason


class Refusal(Exception):
    """A request that is not served.

    Parameters
    ----------
    status
        HTTP status.
    reason
        The fault, its place in the request, and the expected form.
    headers
        Further headers of the answer.
    """

    def __init__(self, status: int, reason: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason
        self.headers = headers


def shown(value: Any) -> str:
    """Return a value of a request as short text for a reason.

    Examples
    --------
    >>> shown("x" * 100)
    "'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx..."
    >>> shown([1, 2])
    'a list'
    """
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, list):
        return "a list"
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, str):
        value = value[:_LONGEST_VALUE]
    elif isinstance(value, int) and abs(value) >= 10**_LONGEST_VALUE:
        # Python refuses to write integers of thousands of digits as text.
        return "a number of many digits"
    text = repr(value)
    if len(text) > _LONGEST_VALUE:
        return text[:_LONGEST_VALUE] + "..."
    return text
