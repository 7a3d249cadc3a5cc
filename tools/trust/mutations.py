"""Changes of bytes, text and JSON that files from strangers, crashes and editors may show."""

from __future__ import annotations

import json
import random
import re
from typing import Any

TOKENS = [
    *(
        "",
        "0",
        "-0",
        "1",
        "-1",
        "3",
        "00",
        "1e308",
        "1e309",
        "-1e400",
        "5e-324",
        "nan",
        "inf",
        "-inf",
        "NA",
        "x",
    ),
    *(
        "2147483647",
        "2147483648",
        "4294967295",
        "9223372036854775808",
        "9" * 40,
        "0x10",
        "1_000",
        "١",
        "1.",
        ".5",
    ),
    *(
        "true",
        "null",
        "None",
        "[]",
        "{}",
        "''",
        '"',
        "\\",
        "#",
        ":",
        ",",
        "=",
        "(",
        ")",
        "@",
        "+",
        "^",
        "\0",
        "\ufeff",
    ),
    *(
        "\r",
        "\n",
        "\t",
        "\u2028",
        "\ud83d\ude00".encode("utf-16", "surrogatepass").decode("utf-16"),
        "../../x",
        "/",
    ),
]
VALUES: list[Any] = [
    *(
        None,
        True,
        False,
        0,
        1,
        -1,
        0.5,
        2**31,
        2**63,
        10**40,
        1e308,
        float("nan"),
        float("inf"),
        "",
        "x",
        "\x1b[31m",
    ),
    *(
        "../../../etc/passwd",
        "/dev/zero",
        [],
        {},
        [[]],
        {"a": 1},
        ["x"],
        [1],
        [None],
        "9" * 1000,
        "0",
    ),
]
WORD = re.compile(r"[^\s:,=()\[\]{}\"]+")


def changed_bytes(content: bytes, draw: random.Random) -> bytes:
    """Flip, cut, repeat or insert bytes."""
    data = bytearray(content)
    kind = draw.randrange(5)
    if kind == 0 or not data:
        for _ in range(draw.choice([1, 1, 3, 30])):
            data.insert(draw.randrange(len(data) + 1), draw.randrange(256))
    elif kind <= 2:
        for _ in range(draw.choice([1, 1, 3, 30])):
            data[draw.randrange(len(data))] = draw.randrange(256)
    elif kind == 3:
        start = draw.randrange(len(data))
        del data[start : start + draw.choice([1, 2, 8, len(data)])]
    else:
        start = draw.randrange(len(data))
        piece = data[start : start + draw.choice([1, 8, 64])] * draw.choice([1, 2, 200])
        data[start:start] = piece
    return bytes(data)


def changed_text(content: bytes, draw: random.Random) -> bytes:
    """Replace, drop or repeat words and lines."""
    text = content.decode(errors="surrogateescape")
    words = list(WORD.finditer(text))
    kind = draw.randrange(4)
    if kind <= 1 and words:
        word = draw.choice(words)
        other = draw.choice(TOKENS) if draw.random() < 0.7 else draw.choice(words)[0]
        text = text[: word.start()] + other + text[word.end() :]
    else:
        lines = text.split("\n")
        chosen = draw.randrange(len(lines))
        if kind == 2:
            del lines[chosen]
        else:
            lines.insert(draw.randrange(len(lines) + 1), lines[chosen] * draw.choice([1, 1, 2, 50]))
        text = "\n".join(lines)
    return text.encode(errors="surrogateescape")


def changed_json(content: bytes, draw: random.Random) -> bytes:
    """Replace, drop or nest a value somewhere in a document."""
    document = json.loads(content)
    places: list[tuple[Any, Any]] = []

    def collect(value: Any) -> None:
        items = (
            value.items()
            if isinstance(value, dict)
            else enumerate(value)
            if isinstance(value, list)
            else ()
        )
        for key, inner in items:
            places.append((value, key))
            collect(inner)

    collect(document)
    if not places:
        return changed_bytes(content, draw)
    holder, key = draw.choice(places)
    kind = draw.randrange(5)
    if kind == 0:
        del holder[key]
    elif kind == 1 and isinstance(holder, dict):
        holder[draw.choice(["x", "__proto__", "", str(key) * 2])] = holder.pop(key)
    elif kind == 2:
        value = holder[key]
        for _ in range(draw.choice([1, 3, 600])):
            value = [value]
        holder[key] = value
    else:
        holder[key] = draw.choice(VALUES)
    return json.dumps(document, indent=draw.choice([None, 1])).encode()


def changed(content: bytes, draw: random.Random, structured: bool) -> bytes:
    """Apply one to three changes."""
    for _ in range(draw.choice([1, 1, 2, 3])):
        kinds = [changed_bytes] if b"\0" in content else [changed_bytes, changed_text, changed_text]
        if structured:
            try:
                json.loads(content)
                kinds = [changed_bytes, changed_json, changed_json, changed_json]
            except (ValueError, RecursionError):
                pass
        try:
            content = draw.choice(kinds)(content, draw)
        except RecursionError:  # nested too deeply for this program
            content = changed_bytes(content, draw)
    return content
