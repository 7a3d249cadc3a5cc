"""Versions of search engines, as users write them."""

from __future__ import annotations

import re

from rankwright.support.checks import ArgumentError

NEWEST = (999, 0, 0)
_VERSION = re.compile(r"v?(\d+)(?:\.(\d+))?(?:\.(\d+))?(?:\.\d+)*(?:-[\w.]+)?", re.ASCII)


def parse_version(text: str | None) -> tuple[int, int, int]:
    """Return the first three numbers of a version; None is the newest version.

    Examples
    --------
    >>> parse_version("3.8.1"), parse_version("3"), parse_version("8.11.4-SNAPSHOT")
    ((3, 8, 1), (3, 0, 0), (8, 11, 4))
    """
    if text is None:
        return NEWEST
    match = _VERSION.fullmatch(text.strip())
    if match is None:
        raise ArgumentError("target_version", f"must be a version such as 3.2; got {text!r}.")
    major, minor, patch = (int(number or 0) for number in match.groups())
    return major, minor, patch
