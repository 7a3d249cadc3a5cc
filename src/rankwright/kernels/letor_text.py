"""Scanner for LETOR text: `measure` finds the shape of a piece of a file, `parse_rows` reads it.

Decimal numbers become the nearest float64. Up to 15 digits or so this takes one multiplication or
division of exact numbers (Clinger, PLDI 1990). Longer ones take a product of numbers that have two
doubles each, with an exact rounding error (Dekker, Numerische Mathematik 1971). Numbers that these cannot
decide (very small ones, infinite ones, and those next to a tie) are listed for the caller, who has big integers.

Every piece of text ends with a newline, at which all loops stop, so none looks for the end. The hot
functions pass single characters to their helpers: counting the references to an array passed on
would cost as much as the parsing.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numba import types
from numpy.typing import NDArray

from rankwright.kernels.jit import internal, jit, shared
from rankwright.kernels.ordering import shell_sort

# Outcomes of parse_rows: all but the first say what is wrong with the token that comes with them.
OK = 0
BAD_LABEL = 1
BAD_QID = 2
BAD_INDEX = 3
BAD_VALUE = 4
INFINITE = 5
INDEX_ZERO = 6
INDEX_TOO_LARGE = 7
DUPLICATE = 8
_NO_DIGIT = 9  # internal: the token may still be a word

MAX_INDEX = 2**31 - 2  # columns are int32 in SciPy and in LightGBM

_UNDECIDED = -1.0  # numbers are parsed without their sign, so no value is negative

_BLOCK = 64  # bytes that `measure` takes in one go

_TAB = 9
_NEWLINE = 10
_RETURN = 13
_SPACE = 32
_HASH = 35
_PLUS = 43
_MINUS = 45
_POINT = 46
_ZERO = 48
_NINE = 57
_COLON = 58
_CAPITAL_E = 69
_SMALL_E = 101
_TO_SMALL = np.uint8(32)  # this bit turns an ASCII capital into the small letter
_QID = np.frombuffer(b"qid:", dtype=np.uint8)
_NAN = np.frombuffer(b"nan", dtype=np.uint8)
_INF = np.frombuffer(b"inf", dtype=np.uint8)
_INFINITY = np.frombuffer(b"infinity", dtype=np.uint8)

# Powers of ten in these limits, and their rests, are normal doubles.
_LEAST_POWER, _MOST_POWER = -290, 308
_LEAST_CERTAIN = 1e-280  # the tails of smaller products may be subnormal
_TAIL_ERROR = 2.0**-98  # of a product, and far more than the roundings of its tail
_HALVES = 2.0**27 + 1  # splits a double into halves of 26 bits
_MAX_EXPONENT = 10**12  # far beyond what the digits of a line can compensate
_ROOM_FOR_DIGIT = np.uint64(10**18)  # below it, one more digit fits into 64 bits
_MAX_INT64 = np.uint64(2**63 - 1)
_EXACT = np.uint64(2**53)  # integers up to here are float64 exactly
_EXACT_TENS = np.array([10.0**k for k in range(23)])

_U0 = np.uint64(0)
_U1 = np.uint64(1)
_U10 = np.uint64(10)


def _ten_power(q: int) -> tuple[float, float]:
    """Return 10^q as the nearest double and the nearest double to the rest."""
    power = Fraction(10) ** q
    return float(power), float(power - Fraction(float(power)))


_TENS = np.array([_ten_power(q) for q in range(_LEAST_POWER, _MOST_POWER + 1)])


@jit
def measure(text: NDArray[np.uint8], start: int, stop: int) -> tuple[int, int, int]:
    """Count rows and colons of the whole lines ``text[start:stop]``, and bytes of the longest line.

    No line is parsed here, but `parse_rows` writes as many rows and at most as many entries.
    """
    rows = 0
    colons = 0
    longest = 0
    line = start
    for block_start in range(start, stop, _BLOCK):
        block = text[block_start : min(block_start + _BLOCK, stop)]
        newlines = 0
        for i in range(len(block)):  # no branch, so that the compiler takes many bytes at once
            newlines += block[i] == _NEWLINE
            colons += block[i] == _COLON
        if newlines > 0:
            for i in range(len(block)):
                if block[i] == _NEWLINE:
                    pos = line
                    while _is_blank(text[pos]):
                        pos += 1
                    rows += not _ends_line(text[pos])
                    longest = max(longest, block_start + i - line)
                    line = block_start + i + 1
    return rows, colons, longest


@jit
def find_largest_index(text: NDArray[np.uint8], start: int, stop: int) -> tuple[int, int]:
    """Find the largest index in the whole lines ``text[start:stop]``, -1 if there is none, and its place."""
    largest = -1
    place = start
    pos = start
    while pos < stop:
        tokens = 0
        while True:
            while _is_blank(text[pos]):
                pos += 1
            if _ends_line(text[pos]):
                break
            token = pos
            tokens += 1
            index = 0
            while _is_digit(text[pos]):
                index = _append_digit(index, text[pos])
                pos += 1
            if tokens > 2 and pos > token and text[pos] == _COLON and index > largest:
                largest = index
                place = token
            while not _ends_token(text[pos]):
                pos += 1
        pos = _next_line(text, pos)
    return largest, place


class ParsedRows(NamedTuple):
    """What `parse_rows` fills.

    Dense: ``values`` is the matrix in row-major order [rows · width] and ``columns`` has room for
    one row [longest]. Sparse: both have a place per entry, and ``row_sizes`` says whose it is.
    """

    values: NDArray[Any]
    columns: NDArray[np.int32]
    row_sizes: NDArray[np.int64]
    labels: NDArray[np.float64]
    ids: NDArray[np.int64]
    id_spans: NDArray[np.int64]  # where each row's query id stands in the text [rows, 2]
    undecided: NDArray[
        np.int64
    ]  # (place in ``values``, or -1 - row for a label; start; stop) of a number


@jit
def parse_rows(
    text: NDArray[np.uint8],
    start: int,
    stop: int,
    row: int,
    entry: int,
    first_index: int,
    width: int,
    longest: int,
    dense: bool,
    out: ParsedRows,
) -> tuple[int, int, int, int, int, bool]:
    """Parse whole lines ``text[start:stop]`` into rows from ``row`` and entries from ``entry`` on.

    Returns the outcome; the place of the token at fault, or else where to resume (before ``stop``
    only where ``undecided`` was full); the next row; the next entry; how many numbers are in
    ``undecided``; and whether all query ids were int64.
    """
    values, columns, row_sizes, labels, ids, id_spans, undecided = out
    n_undecided = 0
    all_integers = True
    outcome = OK
    pos = start
    token = start
    while pos < stop:
        line = pos
        while _is_blank(text[pos]):
            pos += 1
        if _ends_line(text[pos]):
            pos = _next_line(text, pos)
            continue
        if n_undecided + longest + 1 > len(undecided):
            pos = line
            break

        token = pos
        outcome, pos, value, negative = _parse_number(text, token)
        if outcome != OK or (negative and value != 0.0):
            outcome = BAD_LABEL
            break
        if value == _UNDECIDED:
            undecided[n_undecided, 0] = -1 - row
            undecided[n_undecided, 1] = token
            undecided[n_undecided, 2] = pos
            n_undecided += 1
        labels[row] = value

        while _is_blank(text[pos]):
            pos += 1
        token = pos
        while not _ends_token(text[pos]):
            pos += 1
        if not _is_qid(text, token, pos):
            outcome = BAD_QID
            break
        id_spans[row, 0] = token + len(_QID)
        id_spans[row, 1] = pos
        is_integer, ids[row] = _parse_integer(text, token + len(_QID), pos)
        all_integers = all_integers and is_integer

        first = 0 if dense else entry
        place = first
        previous = -1
        ascending = True
        while True:
            while _is_blank(text[pos]):
                pos += 1
            if _ends_line(text[pos]):
                break
            token = pos
            index = 0
            while _is_digit(text[pos]):
                index = _append_digit(index, text[pos])
                pos += 1
            if pos == token or text[pos] != _COLON:
                outcome = BAD_INDEX
                break
            column = index - first_index
            if column < 0:
                outcome = INDEX_ZERO
                break
            if column >= width:
                outcome = INDEX_TOO_LARGE
                break
            number = pos + 1
            outcome, pos, value, negative = _parse_number(text, number)
            if outcome == _NO_DIGIT:
                outcome, pos, value = _parse_word(text, number)
            if outcome != OK:
                break
            slot = row * width + column if dense else place
            if value == _UNDECIDED:
                undecided[n_undecided, 0] = slot
                undecided[n_undecided, 1] = number
                undecided[n_undecided, 2] = pos
                n_undecided += 1
            values[slot] = -value if negative else value
            if np.isinf(values[slot]):  # finite in the text, but too large for float32
                outcome = INFINITE
                break
            ascending = ascending and column > previous
            previous = column
            columns[place] = column
            place += 1
        if outcome != OK:
            break
        if not ascending and _has_duplicate(columns, first, place):
            outcome = DUPLICATE
            token = line
            break

        entry += place - first
        row_sizes[row] = place - first
        row += 1
        pos = _next_line(text, pos)
    return outcome, pos if outcome == OK else token, row, entry, n_undecided, all_integers


@internal
def _is_blank(c: int) -> bool:
    return c == _SPACE or (_TAB <= c <= _RETURN and c != _NEWLINE)


@internal
def _ends_line(c: int) -> bool:
    return c in (_NEWLINE, _HASH)


@internal
def _ends_token(c: int) -> bool:
    return c <= _HASH and (_ends_line(c) or _is_blank(c))


@internal
def _is_digit(c: int) -> bool:
    return _ZERO <= c <= _NINE


@internal
def _append_digit(index: int, c: int) -> int:
    """Append the digit ``c``, or keep an index that is above MAX_INDEX already."""
    return index * 10 + (int(c) - _ZERO) if index <= MAX_INDEX else index


@internal
def _next_line(text: NDArray[np.uint8], pos: int) -> int:
    while text[pos] != _NEWLINE:
        pos += 1
    return pos + 1


@shared(types.boolean(types.int32[::1], types.int64, types.int64), allocates=True)
def _has_duplicate(columns: NDArray[np.int32], start: int, stop: int) -> bool:
    """Whether a column occurs twice; np.sort would take two seconds to compile."""
    order = np.arange(start, stop)
    shell_sort(columns, order, np.int64(0), np.int64(order.size))
    duplicate = False
    for i in range(1, order.size):
        duplicate = duplicate or columns[order[i]] == columns[order[i - 1]]
    return duplicate


@internal
def _is_qid(text: NDArray[np.uint8], start: int, stop: int) -> bool:
    """Whether the token ``text[start:stop]`` is ``qid:`` and at least one character."""
    is_qid = stop - start > len(_QID)
    for i in range(len(_QID)):
        is_qid = is_qid and text[start + i] == _QID[i]
    return is_qid


@internal
def _parse_integer(text: NDArray[np.uint8], start: int, stop: int) -> tuple[bool, np.int64]:
    """Whether the token ``text[start:stop]`` is an integer of at most 64 bits, and the integer."""
    negative = text[start] == _MINUS
    first = start + 1 if negative or text[start] == _PLUS else start
    pos = first
    number = _U0
    while _is_digit(text[pos]) and number < _ROOM_FOR_DIGIT:
        number = number * _U10 + np.uint64(int(text[pos]) - _ZERO)
        pos += 1
    if pos == first or pos < stop or number > _MAX_INT64:
        return False, np.int64(0)
    magnitude = np.int64(number)  # int() would stay unsigned
    return True, -magnitude if negative else magnitude


@internal
def _parse_number(text: NDArray[np.uint8], start: int) -> tuple[int, int, float, bool]:
    """Parse the token at ``start``: outcome, end of the number, magnitude, whether negative."""
    negative = bool(text[start] == _MINUS)
    first = start + 1 if negative or text[start] == _PLUS else start
    pos = first
    mantissa = _U0
    exponent = 0
    truncated = False
    points = 0
    while True:
        c = int(text[pos])
        if _is_digit(c):
            if mantissa < _ROOM_FOR_DIGIT:
                mantissa = mantissa * _U10 + np.uint64(c - _ZERO)
                exponent -= points
            else:
                truncated = truncated or c != _ZERO
                exponent += 1 - points
        elif c == _POINT and points == 0:
            points = 1
        else:
            break
        pos += 1
    if pos == first + points:
        return _NO_DIGIT, pos, 0.0, negative

    if text[pos] in (_SMALL_E, _CAPITAL_E):
        pos += 1
        down = text[pos] == _MINUS
        if down or text[pos] == _PLUS:
            pos += 1
        if not _is_digit(text[pos]):
            return BAD_VALUE, pos, 0.0, negative
        power = 0
        while _is_digit(text[pos]):
            if power < _MAX_EXPONENT:
                power = power * 10 + (int(text[pos]) - _ZERO)
            pos += 1
        exponent += -power if down else power
    if not _ends_token(text[pos]):
        return BAD_VALUE, pos, 0.0, negative

    value = _nearest(mantissa, exponent)
    if truncated and value != _nearest(mantissa + _U1, exponent):
        value = _UNDECIDED
    return INFINITE if np.isinf(value) else OK, pos, value, negative


@internal
def _parse_word(text: NDArray[np.uint8], start: int) -> tuple[int, int, float]:
    """Parse the token at ``start`` as nan or infinity, signed or not: outcome, end, value."""
    first = start + 1 if text[start] in (_MINUS, _PLUS) else start
    pos = first
    while not _ends_token(text[pos]):
        pos += 1
    if _is_word(text, first, pos, _NAN):
        return OK, pos, np.nan
    if _is_word(text, first, pos, _INF) or _is_word(text, first, pos, _INFINITY):
        return INFINITE, pos, np.inf
    return BAD_VALUE, pos, 0.0


@internal
def _is_word(text: NDArray[np.uint8], start: int, stop: int, word: NDArray[np.uint8]) -> bool:
    """Whether the token ``text[start:stop]`` is ``word`` in small letters, capitals or a mix."""
    is_word = stop - start == len(word)
    for i in range(len(word)):
        is_word = is_word and (text[start + i] | _TO_SMALL) == word[i]
    return is_word


@internal
def _nearest(w: np.uint64, q: int) -> float:
    """Nearest float64 to w · 10^q, ties to even; _UNDECIDED if it is close to a tie, very small or infinite."""
    if w <= _EXACT and -22 <= q <= 22:  # both numbers are exact, so the one operation rounds once
        return float(float(w) / _EXACT_TENS[-q] if q < 0 else float(w) * _EXACT_TENS[q])
    if w == _U0:
        return 0.0
    if not _LEAST_POWER <= q <= _MOST_POWER:
        return _UNDECIDED
    # Both factors are sums of two doubles, and so is their product: itself and a tail.
    high = float(w)
    low = float(np.int64(w - np.uint64(high)))
    power = _TENS[q - _LEAST_POWER, 0]
    rest = _TENS[q - _LEAST_POWER, 1]
    product = high * power
    tail = _rounding_error(high, power, product) + (high * rest + low * power)
    # The tail has an error of its own, and the sum is certain if no tail within it rounds elsewhere.
    value = product + (tail - _TAIL_ERROR * product)
    if value != product + (tail + _TAIL_ERROR * product) or value < _LEAST_CERTAIN:
        return _UNDECIDED
    return value


@internal
def _rounding_error(a: float, b: float, product: float) -> float:
    """Return a · b minus its rounded product: exact, from halves of a and b whose products are exact."""
    a_high = _HALVES * a - (_HALVES * a - a)
    b_high = _HALVES * b - (_HALVES * b - b)
    a_low = a - a_high
    b_low = b - b_high
    return ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low
