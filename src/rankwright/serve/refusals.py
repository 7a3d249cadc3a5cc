"""Refusals, which become answers with a reason."""

from __future__ import annotations

from typing import Any


class Refusal(Exception):
    """A request that is not served.

    Parameters
    ----------
    status
        HTTP status.
    reason
        What is wrong, where, and what was expected.
    headers
        Further headers of the answer.
    """

    def __init__(
        self, status: int, reason: str, headers: tuple[tuple[bytes, bytes], ...] = ()
    ) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason
        self.headers = headers


class Disconnected(Exception):
    """The client left before its request was complete."""


def shown(value: Any, length: int = 40) -> str:
    """Return a value of a request as short text for a reason, whatever it is.

    Examples
    --------
    >>> shown("x" * 100)
    "'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx..."
    >>> shown([1, 2])
    'a list'
    """
    kinds = {
        list: "a list",
        dict: "an object",
        type(None): "null",
        bool: "true" if value is True else "false",
    }
    if type(value) in kinds:
        return kinds[type(value)]
    if isinstance(value, int) and abs(value) >= 10**length:
        return "a number of many digits"
    text = repr(value[:length] if isinstance(value, str) else value)
    return text if len(text) <= length else text[:length] + "..."
