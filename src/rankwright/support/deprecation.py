"""Old names of arguments: they work for some versions, with a warning that names the new one."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import wraps
from typing import Any


def renamed(old: str, new: str, *, since: str, removed: str) -> Callable[..., Any]:
    """Decorate a function, one of whose keyword arguments has got another name: a warning names it."""

    def decorated(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def call(*arguments: Any, **options: Any) -> Any:
            if old in options:
                text = f"{old}= is called {new}= since version {since}; {removed} removes the old name."
                warnings.warn(text, FutureWarning, stacklevel=2)
                options[new] = options.pop(old)
            return function(*arguments, **options)

        return call

    return decorated
