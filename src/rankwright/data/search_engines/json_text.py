"""JSON of other programs, read strictly: every error is a sentence that says where it is."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rankwright.support.checks import located
from rankwright.support.files import PathLike, read_text

_LONGEST_VALUE = 40  # characters of a value in an error
_MOST_DIGITS = 400  # no finite number has more


@contextmanager
def place(where: object) -> Iterator[None]:
    """Let errors begin with the place of the problem, for example ``response 2``.

    Examples
    --------
    >>> with place("hit 3"):
    ...     number("x", "price")
    Traceback (most recent call last):
    ValueError: hit 3: 'price' must be a number; got 'x'.
    """
    try:
        yield
    except ValueError as error:
        raise located(where, error) from None


def read_json(path: PathLike) -> list[tuple[str, Any]]:
    """Return the values of a JSON file, each with its place: a value per line, or a single value.

    A list of the file is taken apart, because a list of responses is a form of several responses.
    """
    text = text_of_file(path)
    # A file with a value per line has no value that spans lines.
    lines = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    if not lines:
        raise ValueError(f"{path} is empty; expected JSON, or JSON lines.")
    if len(lines) == 1 or not _is_json(lines[0][1]):
        with place(path):
            value = parse(text)
        if not isinstance(value, list):
            return [(str(path), value)]
        return [(f"{path}, value {number}", item) for number, item in enumerate(value, start=1)]
    values = []
    for number, line in lines:
        where = f"{path}, line {number}"
        with place(where):
            values.append((where, parse(line)))
    return values


def text_of_file(path: PathLike) -> str:
    """Return the text of a file in UTF-8, also of a gzip file."""
    try:
        return read_text(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path} is not text in UTF-8: byte {error.start} is invalid; save it as UTF-8."
        ) from None


def parse(text: str) -> Any:
    """Parse JSON; raise ValueError for a key that occurs twice, and for text that is not JSON."""
    try:
        return json.loads(text, object_pairs_hook=_unique, parse_int=_whole)
    except json.JSONDecodeError as error:
        raise ValueError(f"this is not JSON: {error}.") from None
    except RecursionError:
        raise ValueError("the JSON is nested too deeply.") from None


def _is_json(text: str) -> bool:
    try:
        json.loads(text, parse_int=_whole)
    except (json.JSONDecodeError, RecursionError):
        return False
    return True


def _whole(text: str) -> int | float:
    """Return a whole number; one of hundreds of digits is infinite, and refused as such."""
    if len(text) > _MOST_DIGITS:
        return math.inf
    return int(text)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {shown(twice)} occurs twice in an object; keep one of them.")
    return values


def shown(value: Any) -> str:
    """Return a value as short text for an error."""
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "a list"
    text = repr(value)
    if len(text) > _LONGEST_VALUE:
        return text[:_LONGEST_VALUE] + "..."
    return text


def member(value: Any, key: str, kind: type | tuple[type, ...], meaning: str) -> Any:
    """Return a member of an object; raise ValueError if it is missing or of another type.

    Examples
    --------
    >>> member({"hits": []}, "hits", list, "a list of hits")
    []
    """
    if not isinstance(value, dict):
        raise ValueError(f"expected an object with the key {key!r}; got {shown(value)}.")
    if key not in value:
        keys = ", ".join(map(repr, list(value)[:6]))
        raise ValueError(
            f"the key {key!r} is missing; expected {meaning}, and the keys are {keys}."
        )
    found = value[key]
    if not isinstance(found, kind):
        raise ValueError(f"{key!r} must be {meaning}; got {shown(found)}.")
    return found


def identifier(value: Any, name: str) -> str:
    """Return an id as text; raise ValueError unless it is text or a whole number."""
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    if not is_whole and not (isinstance(value, str) and value):
        raise ValueError(f"{name!r} must be text or a whole number; got {shown(value)}.")
    text = str(value)
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{name!r} is not valid text: {shown(value)}.") from None
    # A line break in an id is a sign of a damaged file, and most files could not hold it.
    if any(character < " " for character in text):
        raise ValueError(f"{name!r} has a line break or another control character: {shown(text)}.")
    return text


def number(value: Any, name: str) -> float:
    """Return a finite number, or NaN for null and ``"NaN"``, by which engines write a missing value.

    Examples
    --------
    >>> number(2, "price"), number("NaN", "price")
    (2.0, nan)
    """
    if value is None or value == "NaN":
        return math.nan
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{name!r} must be a number; got {shown(value)}.")
    try:
        result = float(value)
    except OverflowError:
        result = math.inf
    if math.isinf(result):
        raise ValueError(f"{name!r} must be a finite number; got {shown(value)}.")
    return result
