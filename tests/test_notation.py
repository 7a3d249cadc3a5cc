"""The one notation of metrics and objectives: what is read, what is refused and why, and in which time."""

from __future__ import annotations

import re
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pytest

from rankwright import metric, objective
from rankwright.metrics import NDCG
from rankwright.objectives import LambdaMART
from rankwright.support.notation import Notation, literal, written


@dataclass(frozen=True)
class Box:
    size: Any
    colour: Any = "red"
    at: int | None = None
    area: float = field(init=False, default=0.0)


def notation() -> Notation:
    boxes = Notation("box", "'box(size=2)'", reserved=("auto",), hidden=("at",))
    boxes.register("box", Box)
    return boxes


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3", 3),
        ("-3", -3),
        ("0.5", 0.5),
        ("1e-3", 0.001),
        ("inf", float("inf")),
        ("True", True),
        ("true", True),
        ("False", False),
        ("false", False),
        ("None", None),
        ("none", "none"),
        ("k+3", "k+3"),
        ("ndcg-loss2++", "ndcg-loss2++"),
        ("'k'", "k"),
        ('"k"', "k"),
        ("'3'", "3"),
        ("'None'", "None"),
        ("''", ""),
        ("", ""),
        ("'a, b'", "a, b"),
        ("') + ('", ") + ("),
        ('"it\'s"', "it's"),
        ("it's", "it's"),
        ("f(1, 2)", "f(1, 2)"),
        ("a=b", "a=b"),
    ],
)
def test_values(text: str, value: object) -> None:
    (term,) = notation().read(f" Box ( size = {text} , colour={text})  ")
    assert (term.name, term.options) == ("box", {"size": value, "colour": value})
    assert type(term.options["size"]) is type(value)
    assert literal(written(value)) == value
    assert notation().create(term) == Box(value, value)


def test_one_quote_is_not_a_quoted_text() -> None:
    assert [literal(text) for text in ("'", '"', "''", "'\"")] == ["'", '"', "", "'\""]


def test_only_an_option_that_is_false_by_default_stands_alone() -> None:
    @dataclass(frozen=True)
    class Lamp:
        on: bool = False
        size: Any = 1

    lamps = Notation("lamp", "'lamp(on)'")
    lamps.register("lamp", Lamp)
    assert lamps.create(lamps.read("lamp(on)")[0]) == Lamp(on=True)
    with pytest.raises(ValueError, match="option 'size' of lamp has no value"):
        lamps.create(lamps.read("lamp(size)")[0])


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("box", [("box", 1.0, 0.0, None)]),
        ("box()", [("box", 1.0, 0.0, None)]),
        ("box(,)@3", [("box", 1.0, 0.0, 3)]),
        ("box @ 007", [("box", 1.0, 0.0, 7)]),
        ("2box", [("2box", 1.0, 0.0, None)]),
        ("1e-3*box", [("box", 0.001, 0.0, None)]),
        (".5  n^-.5\tbox + 2. * n^1e1 * box@4", [("box", 0.5, -0.5, None), ("box", 2.0, 10.0, 4)]),
        ("n + n^2 n", [("n", 1.0, 0.0, None), ("n", 1.0, 2.0, None)]),
        ("dcg-rr(a='+')+b", [("dcg-rr", 1.0, 0.0, None), ("b", 1.0, 0.0, None)]),
    ],
)
def test_terms(text: str, terms: list[tuple[object, ...]]) -> None:
    assert [(t.name, t.factor, t.power, t.cutoff) for t in notation().read(text)] == terms


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "'' is not a box: expected a name, found its end; write it like 'box.size=2.'"),
        ("box +", "'box [+]' is not a box: expected a name, found its end"),
        ("+ box", "expected a name, found '[+] box'"),
        ("5", "expected a name, found '5'"),
        ("-1 box", "expected a name, found '-1 box'"),
        ("box box", "expected its end, found 'box'"),
        ("box(size=1))", "expected its end, found '[)]'"),
        ("box@", "expected its end, found '@'"),
        ("box@1.5", "expected its end, found '.5'"),
        ("box(size=1", "a bracket is not closed"),
        ("box(size=(1)", "a bracket is not closed"),
        ("box(size='1)", "a quote is not closed"),
        ("box(size='a'b)", "expected a comma after the closing quote in \"'a'b\""),
        ("box(size)", r"option 'size' of box has no value; write box\(option=value\)"),
        ("box(size=1, size=1)", "box has the option size twice; give it once"),
        ("0 box", "the factor of box must be above 0"),
        ("1e999 box", "the factor of box must be above 0 and both numbers before it finite"),
        ("n^1e999 box", "numbers before it finite"),
        (
            "bocks(size=1)",
            r"unknown box 'bocks\(size=1\)'; did you mean 'box\(size=1\)'\? Known: box",
        ),
        ("q", "unknown box 'q'. Known: box"),
        (
            "box(sice=1)",
            r"box has no option 'sice'; did you mean 'size'\? Its options: size, colour",
        ),
        ("box(at=1)", "box has no option 'at'"),
        ("box(area=1)", "box has no option 'area'"),
        ("box", r"box needs the option size; write box\(size=value\)"),
        (f"box@{'9' * 5000}", "its cutoff has too many digits"),
    ],
)
def test_errors(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        [notation().create(term) for term in notation().read(text)]


def test_metrics_and_objectives_read_the_same_values() -> None:
    assert (
        metric("""ndcg(gain='linear', discount="log2")@5""")
        == metric("ndcg(gain=linear)@5")
        == NDCG(gain="linear", at=5)
    )
    assert objective("""lambdamart(truncation="k", extend='all')""") == LambdaMART(
        truncation="k", extend="all"
    )
    with pytest.raises(
        ValueError, match="mrr needs threshold strictly between 0 and inf; got True"
    ):
        metric("mrr(threshold=true)")
    with pytest.raises(
        ValueError, match="'2 ndcg' is not a metric: it has a factor and no second term"
    ):
        metric("2 ndcg")
    with pytest.raises(ValueError, match=r"'n\^2 ndcg' is not a metric: it has a power of n"):
        metric("n^2 ndcg")
    with pytest.raises(
        ValueError,
        match="'yetiloss@10' is not an objective: it has a cutoff, which belongs to the metric",
    ):
        objective("yetiloss@10")


def test_names_are_refused_that_are_taken_or_cannot_be_read() -> None:
    boxes = notation()
    boxes.register("box", Box)
    boxes.register("box", type("Box", (), {"__module__": "__main__"}))  # defined again
    boxes.register("box", Box)
    with pytest.raises(
        ValueError, match=r"box Other cannot be named 'Box', the name of test_notation.Box; choose"
    ):
        boxes.register("Box", type("Other", (), {}))
    for name in ("", "a b", "a.b", "3", "box(2)", "Auto"):
        with pytest.raises(
            ValueError, match=f"{re.escape(repr(name))} cannot be the name of a box.*and not auto"
        ):
            boxes.register(name, type("Other", (), {}))


LONG = 20_000
HARD = {
    "digits": "1" * LONG,
    "digits and a name": "1" * LONG + "x",
    "digits and dots": "1." * (LONG // 2),
    "an exponent": "1e" + "1" * LONG,
    "a power": "n^" + "1" * LONG,
    "a cutoff": "ndcg@" + "1" * LONG,
    "spaces": "2" + " " * LONG + "+",
    "stars": "2" + " *" * (LONG // 2),
    "a name": "ndcg" * (LONG // 4),
    "hyphens": "-" * LONG,
    "brackets": "ndcg" + "(" * LONG,
    "pairs of brackets": "ndcg(gain=" + "(" * (LONG // 2) + ")" * (LONG // 2) + ")",
    "quotes": "ndcg(gain='" + "\"'" * (LONG // 2),
    "commas": "ndcg(" + "," * LONG + ")",
    "equal signs": "ndcg(" + "=" * LONG + ")",
    "options": "ndcg(" + ",".join(f"a{i}=1" for i in range(LONG // 8)) + ")",
    "a value": "ndcg(gain=" + "9" * LONG + ")",
    "terms": "+".join(["ranknet"] * (LONG // 8)),
    "terms with options": "+".join(["2 n^-1 ranknet(sigma='2')"] * (LONG // 26)),
    "plus signs": "+" * LONG,
}


@pytest.mark.parametrize("read", [metric, objective])
@pytest.mark.parametrize("name", HARD)
def test_long_texts_are_read_or_refused_at_once(name: str, read: Any) -> None:
    start = time.process_time()
    with suppress(ValueError):
        read(HARD[name])
    assert time.process_time() - start < 1
