"""Versions of search engines, as users write them."""

from __future__ import annotations

import re


def parse_version(text: str) -> tuple[int, int]:
    """Return major and minor number.

    Examples
    --------
    >>> parse_version("3.8.1"), parse_version("3")
    ((3, 8), (3, 0))
    """
    match = re.fullmatch(r"(\d+)(?:\.(\d+))?(?:\.\d+)*", text.strip())
    if match is None:
        raise ValueError(f"target_version={text!r} is not a version; write one such as '3.2'.")
    return int(match[1]), int(match[2] or 0)
