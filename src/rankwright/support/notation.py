"""The text form of metrics and objectives.

Examples are ``ndcg(gain=linear)@10`` and ``yetiloss(neighbours=3) + 0.5 n^-0.5 queryrmse``:

    text    = term {"+" term}
    term    = [factor] ["n^" power] name ["(" [option {"," option}] ")"] ["@" cutoff] ["[" label "]"]
    option  = key "=" value, or the key alone of an option that is True or False
    value   = a number, True, False, None, text, or 'quoted text' in single or double quotes

A factor and a power are followed by a space or ``*``. Names are read without regard to case. The
time is linear in the length of the text, because no regular expression here can backtrack.
"""

from __future__ import annotations

import dataclasses
import difflib
import math
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, NoReturn

# Possessive quantifiers (with a second +) never give signs back, so that reading takes linear time.
_NUMBER = r"(?:\d++\.?+\d*+|\.\d++)(?:e-?+\d++)?+"
_TIMES = r"(?:\s*+\*\s*+|\s++)"
_FACTOR = re.compile(rf"({_NUMBER}){_TIMES}")
_POWER = re.compile(rf"n\^(-?+{_NUMBER}){_TIMES}")
_NAME = re.compile(r"[\w-]++")
_CUTOFF = re.compile(r"@\s*+(\d++)")
_LABEL = re.compile(r"\[([^\[\]]*+)\]")
_WORDS = {"True": True, "true": True, "False": False, "false": False, "None": None}
_PACKAGE = __name__.partition(".")[0] + "."
_LONGEST = 80  # characters of a text that an error repeats


class UnknownName(ValueError):
    """Raised if a text names a class that is not defined in this process."""


class Term(NamedTuple):
    """A term of a text: the name, the options in its brackets, and the numbers around it."""

    text: str
    name: str  # in lower case
    options: dict[str, Any]
    factor: float = 1.0
    power: float = 0.0
    cutoff: int | None = None
    label: str | None = None
    switches: tuple[str, ...] = ()  # keys without a value


@dataclass(frozen=True)
class Notation:
    """How values of one kind are written, and the classes that are known by name.

    Parameters
    ----------
    noun
        What the values are called in errors.
    example
        How to write such a value, for errors.
    reserved
        Names that no class may have.
    hidden
        Fields of the classes that are not options.

    Examples
    --------
    >>> @dataclass(frozen=True)
    ... class Circle:
    ...     radius: float = 1.0
    >>> shapes = Notation("shape", "'circle(radius=2)'")
    >>> shapes.register("circle", Circle)
    >>> shapes.create(shapes.read("circle(radius=2)")[0])
    Circle(radius=2)
    >>> shapes.read("0.5 n^-1 circle")[0]
    Term(text='0.5 n^-1 circle', name='circle', options={}, factor=0.5, power=-1.0, cutoff=None, ...)
    """

    noun: str
    example: str
    reserved: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    known: dict[str, type[Any]] = field(default_factory=dict)

    def register(self, name: str, kind: type[Any]) -> None:
        """Make a class known by name.

        A user's class may be defined again, for example if a notebook's cell is run again or a
        script is also imported.
        """
        word = _NAME.fullmatch(name)
        if word is None or not _has_letter(name) or name.lower() in self.reserved:
            exceptions = ""
            if self.reserved:
                exceptions = f", and not {' or '.join(self.reserved)}"
            raise ValueError(
                f"{name!r} cannot be the name of {_with_article(self.noun)}; use letters, digits, "
                f"- and _, with at least one letter{exceptions}."
            )
        other = self.known.get(name.lower(), kind)
        # Classes of this package keep their names, and a user's class may move to another module.
        same_module = other.__module__ == kind.__module__ or not other.__module__.startswith(
            _PACKAGE
        )
        if other.__qualname__ != kind.__qualname__ or not same_module:
            raise ValueError(
                f"the {self.noun} {kind.__qualname__} cannot be named {name!r}, the name of "
                f"{other.__module__}.{other.__qualname__}; choose another name."
            )
        self.known[name.lower()] = kind

    def read(self, text: str) -> list[Term]:
        """Read the terms of a text; raise ValueError if it does not follow the notation."""
        terms = []
        place = 0
        while True:
            term, place = self._term(text, place)
            terms.append(term)
            if place == len(text):
                return terms
            # Only a further term may follow.
            if text[place] != "+":
                self.refuse(text, f"expected its end, found {_short(text[place:])}")
            place += 1

    def split(self, text: str) -> list[str]:
        """Split a list of values and sums, separated by spaces, into their texts."""
        texts = []
        start = place = _skip_spaces(text, 0)
        while place < len(text):
            _, place = self._term(text, place)
            if text.startswith(",", place):
                self.refuse(text, "several are separated by spaces, not by commas")
            # After a plus sign the next term belongs to the same sum.
            if text.startswith("+", place):
                place += 1
                continue
            texts.append(text[start:place].strip())
            start = place
        if start < place:
            self.refuse(text, "it ends with +")
        return texts

    def create(self, term: Term, options: Mapping[str, Any] | None = None, **hidden: Any) -> Any:
        """Create the value that a term names, with further options and values of hidden fields."""
        kind = self.known.get(term.name)
        if kind is None:
            hint = "."
            if near := difflib.get_close_matches(term.name, self.known, n=1, cutoff=0.5):
                written = re.sub(re.escape(term.name), near[0], term.text, count=1, flags=re.I)
                hint = f"; did you mean {_short(written)}?"
            # A cutoff without its sign, for example ndcg10, is a likely slip.
            stem = term.name.rstrip("0123456789")
            if hasattr(self.known.get(stem), "at"):
                hint = f"; did you mean {_short(f'{stem}@{term.name[len(stem) :]}')}?"
            raise UnknownName(
                f"unknown {self.noun} {_short(term.text)}{hint} "
                f"Known: {', '.join(sorted(self.known))}."
            )
        fields = [
            item for item in dataclasses.fields(kind) if item.init and item.name not in self.hidden
        ]
        # Errors list the class's own options first, and the options of all classes last.
        names = [item.name for item in sorted(fields, key=lambda item: item.kw_only is True)]
        for switch in term.switches:
            # A key without a value can only switch something on.
            if not any(item.name == switch and item.default is False for item in fields):
                raise ValueError(
                    f"option {_short(switch)} of {term.name} has no value; "
                    f"write {term.name}(option=value)."
                )
        for option in options or ():
            if option in term.options:
                raise ValueError(
                    f"{term.name} has the option {option} twice, in the text and as a keyword; "
                    "give it once."
                )
        values = {**term.options, **(options or {})}
        for option in values:
            if option not in names:
                hint = nearest(option, names, cutoff=0.6)
                raise ValueError(
                    f"{term.name} has no option {_short(option)}{hint} "
                    f"Its options: {', '.join(names) or 'none'}."
                )
        # We check for missing options too, because the error of the class would not say how to
        # write them.
        for item in fields:
            required = (
                item.default is dataclasses.MISSING and item.default_factory is dataclasses.MISSING
            )
            if required and item.name not in values:
                raise ValueError(
                    f"{term.name} needs the option {item.name}; "
                    f"write {term.name}({item.name}=value)."
                )
        return kind(**values, **hidden)

    def refuse(self, text: str, reason: str) -> NoReturn:
        """Raise the error for a text that is not of this kind."""
        raise ValueError(
            f"{_short(text)} is not {_with_article(self.noun)}: {reason}; "
            f"write it like {self.example}."
        )

    def _term(self, text: str, start: int) -> tuple[Term, int]:
        """Read the term at ``start``; return it with the place of the next sign but spaces."""
        start = place = _skip_spaces(text, start)
        factor, power, cutoff, label = "1", "0", None, None
        if match := _FACTOR.match(text, place):
            factor, place = match[1], match.end()
        if match := _POWER.match(text, place):
            power, place = match[1], match.end()
        name = _NAME.match(text, place)
        if name is None or not _has_letter(name[0]):
            found = "its end"
            if place < len(text):
                found = _short(text[place:])
            self.refuse(text, f"expected a name, found {found}")
        place = name.end()
        # All further parts may be missing, and spaces may stand before each of them.
        options: dict[str, Any] = {}
        switches: tuple[str, ...] = ()
        bracket = _skip_spaces(text, place)
        if text.startswith("(", bracket):
            parts, place = self._parts(text, bracket)
            options = self._options(text, name[0], parts)
            switches = tuple(part for part in parts if part in options)
        if match := _CUTOFF.match(text, _skip_spaces(text, place)):
            place = match.end()
            cutoff = _whole(match[1])
            if cutoff is None:
                self.refuse(text, "its cutoff has too many digits")
        if match := _LABEL.match(text, _skip_spaces(text, place)):
            place, label = match.end(), match[1].strip()
            if not label:
                self.refuse(text, "its square brackets name no label")
        weight, exponent = float(factor), float(power)
        # 1e-999 is read as 0, and 1e999 as infinity.
        if not (0 < weight < math.inf and math.isfinite(exponent)):
            self.refuse(
                text, f"the factor of {name[0]} must be above 0 and both numbers before it finite"
            )
        term = Term(
            text[start:place], name[0].lower(), options, weight, exponent, cutoff, label, switches
        )
        return term, _skip_spaces(text, place)

    def _parts(self, text: str, start: int) -> tuple[list[str], int]:
        """Split the text in the bracket at ``start`` at commas.

        Return the parts and the place past the bracket.
        """
        parts = []
        begin, depth, quote, last = start + 1, 1, "", ""
        for place in range(start + 1, len(text)):
            sign = text[place]
            if quote:
                if sign == quote:
                    quote = ""
            # Elsewhere in a value a quote is a plain sign, for example an apostrophe.
            elif sign in "'\"" and last == "=":
                quote = sign
            elif sign == "(":
                depth += 1
            elif sign == ")":
                depth -= 1
            if not quote and (depth == 0 or (sign == "," and depth == 1)):
                parts.append(text[begin:place].strip())
                begin = place + 1
            if depth == 0:
                return parts, place + 1
            if not sign.isspace():
                last = sign
        self.refuse(text, f"a {'quote' if quote else 'bracket'} is not closed")

    def _options(self, text: str, name: str, parts: list[str]) -> dict[str, Any]:
        options: dict[str, Any] = {}
        for part in filter(None, parts):
            key, equals, value = (piece.strip() for piece in part.partition("="))
            if key in options:
                raise ValueError(f"{name} has the option {key} twice; give it once.")
            if not equals:
                options[key] = True
                continue
            # Text after the closing quote is most likely a forgotten comma.
            if value[:1] in ("'", '"') and value.find(value[0], 1) != len(value) - 1:
                self.refuse(text, f"expected a comma after the closing quote in {_short(value)}")
            options[key] = literal(value)
        return options


def literal(text: str) -> Any:
    """Read a value: a number, True, False, None, or text, with or without quotes.

    A whole number that no float can hold is infinite, as any other such number.

    Examples
    --------
    >>> [literal(text) for text in ("3", "1e-2", "true", "None", "k+3", "'3'")]
    [3, 0.01, True, None, 'k+3', '3']
    """
    if text in _WORDS:
        return _WORDS[text]
    if len(text) > 1 and text[0] in "'\"" and text[-1] == text[0]:
        return text[1:-1]
    try:
        value = int(text)
        if -sys.float_info.max <= value <= sys.float_info.max:
            return value
    except ValueError:
        pass
    # The text may be a fraction, a whole number that is too large, or no number.
    try:
        return float(text)
    except ValueError:
        return text


def written(value: Any) -> str:
    """Write a value so that `literal` reads it back.

    Text gets quotes if it would be read as another type without them.

    Examples
    --------
    >>> written(0.5), written("k+3"), written("3"), written("a, b")
    ('0.5', 'k+3', "'3'", "'a, b'")
    """
    text = str(value)
    if not isinstance(value, str) or (
        literal(text) == text and text == text.strip() and not set(text) & set(",()'\"")
    ):
        return text
    quote = '"' if "'" in text else "'"
    return f"{quote}{text}{quote}"


def split_factor(text: str) -> tuple[float, str]:
    """Split the factor off a term; it is 1 if there is none.

    Examples
    --------
    >>> split_factor("0.3 margin"), split_factor("margin")
    ((0.3, 'margin'), (1.0, 'margin'))
    """
    match = _FACTOR.match(text)
    if match is None:
        return 1.0, text
    return float(match[1]), text[match.end() :]


def check_label_name(name: Any, owner: str) -> None:
    """Raise ValueError unless a label's name is None or text that can stand in the notation."""
    if name is None or (
        isinstance(name, str) and name == name.strip() != "" and not set(name) & set("[]|'\"")
    ):
        return
    raise ValueError(
        f"{owner}: a label's name must be text without brackets, quotes and |; got {name!r}."
    )


def nearest(name: str, known: Iterable[str], *, cutoff: float = 0.5) -> str:
    """End the sentence about an unknown name with the most similar known name.

    Examples
    --------
    >>> "unknown label 'margn'" + nearest("margn", ["relevance", "margin"])
    "unknown label 'margn'; did you mean 'margin'?"
    """
    near = difflib.get_close_matches(name, list(known), n=1, cutoff=cutoff)
    if not near:
        return "."
    return f"; did you mean {near[0]!r}?"


def short_repr(value: Any) -> str:
    """Return the usual text of a dataclass, without its label if it is None.

    Examples
    --------
    >>> @dataclass(frozen=True)
    ... class Circle:
    ...     radius: float = 1.0
    ...     label: str | None = None
    >>> short_repr(Circle()), short_repr(Circle(label="a"))
    ('Circle(radius=1.0)', "Circle(radius=1.0, label='a')")
    """
    names = [item.name for item in dataclasses.fields(value) if item.repr]
    values = ((name, getattr(value, name)) for name in names)
    shown = (f"{name}={item!r}" for name, item in values if name != "label" or item is not None)
    return f"{type(value).__qualname__}({', '.join(shown)})"


def _skip_spaces(text: str, start: int) -> int:
    while start < len(text) and text[start].isspace():
        start += 1
    return start


def _whole(digits: str) -> int | None:
    try:
        return int(digits)
    except ValueError:  # Python reads 4300 digits at most
        return None


def _has_letter(word: str) -> bool:
    return any(sign.isalpha() or sign == "_" for sign in word)


def _with_article(noun: str) -> str:
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"


def _short(text: str) -> str:
    if len(text) <= _LONGEST:
        return repr(text)
    return f"{text[: _LONGEST - 20]!r}..."
