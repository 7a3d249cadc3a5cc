"""The figures of docs/, drawn from what benchmarks/results/ holds.

    python benchmarks/figures.py [FOLDER]

Writes SVG files to FOLDER, docs/images if left out. Nothing is measured here: `papers`, one chart for each paper, and
`defaults` read the tables of papers.md and defaults.md, `comparison` reads the peers-*.json files, `propensities`
offline-evaluation.json, and the others pictures.json, which `pictures.py` writes.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import altair as alt
import vl_convert

from rankwright.charts.theme import chart_config, merged, on_paper

ROOT = Path(__file__).parents[2]
RESULTS = Path(__file__).parent / "results"
OUTCOMES = {
    "agrees": "claims that agree",
    "not significant": "not significant",
    "contradicted": "contradicted",
}
PEERS = ["lightgbm lambdarank", "catboost YetiRank", "catboost QueryRMSE", "xgboost rank:ndcg"]
DATA = {
    "peers-mq2008": "MQ2008, 564 queries",
    "peers-mslr": "MSLR pool, 173",
    "peers-web": "web, 100",
    "peers-big-web": "web, 300",
    "peers-short": "short, 400",
    "peers-big-short": "short, 1000",
    "peers-sparse": "sparse, 60",
    "peers-big-sparse": "sparse, 200",
}
VERDICTS = {"agrees": "#008a66", "not significant": "#8b96a1", "contradicts": "#c24e00"}
METRICS = {"ndcg@10": "NDCG@10", "map": "MAP"}


def tables(name: str) -> Iterator[list[dict[str, str]]]:
    """Tables of a Markdown file of benchmarks/results."""
    return tables_of((RESULTS / name).read_text(encoding="utf-8"))


def tables_of(text: str) -> Iterator[list[dict[str, str]]]:
    """Tables of Markdown text, one dictionary per row."""
    for match in re.finditer(r"(?:^\|.*\n)+", text, re.MULTILINE):
        head, _, *rows = (
            [cell.strip() for cell in line.split("|")[1:-1]] for line in match[0].splitlines()
        )
        yield [dict(zip(head, row, strict=True)) for row in rows]


def papers() -> Any:
    """How many claims of each experiment agree, by data."""
    columns = {**OUTCOMES, "mixed": "mixed"}
    values = [
        {
            "experiment": row["experiment"],
            "data": "MQ2008" if row["data"] == "mq2008" else "generated data",
            "outcome": outcome,
            "order": order,
            "claims": int(row[column]),
        }
        for row in next(tables("papers.md"))
        for order, (outcome, column) in enumerate(columns.items())
        if int(row[column])
    ]
    names = list(dict.fromkeys(value["experiment"] for value in values))
    bars = alt.Chart(alt.Data(values=values), width=300, height={"step": 20}).mark_bar()
    bars = bars.encode(
        x=alt.X("claims:Q", title="claims", axis=alt.Axis(tickMinStep=5)),
        y=alt.Y("experiment:N", title=None, sort=names, axis=alt.Axis(minExtent=145)),
        order="order:Q",
        color=alt.Color(
            "outcome:N",
            sort=list(columns),
            scale=alt.Scale(
                domain=list(columns), range=["#008a66", "#dde2e7", "#c24e00", "#f0c14b"]
            ),
        ),
    )
    return bars.facet(column=alt.Column("data:N", title=None, sort=["generated data", "MQ2008"]))


def section(experiment: str, data: str = "generated") -> dict[str, list[dict[str, str]]]:
    """Tables of a section of papers.md by their titles; the data are named by how their name begins."""
    for text in re.split(
        r"^(?=## )", (RESULTS / "papers.md").read_text(encoding="utf-8"), flags=re.MULTILINE
    ):
        found = re.match(r"## ([\w-]+): .*\((.*)\)\n", text)
        if found is not None and found[1] == experiment and found[2].startswith(data):
            titles = re.findall(r"^\*\*(.+)\*\*$", text, re.MULTILINE)
            return dict(zip(titles, tables_of(text), strict=True))
    raise ValueError(
        f"papers.md has no section of {experiment} on data whose name begins with {data!r}."
    )


def claims_of(*experiments: str) -> Any:
    """Claims of experiments that are differences, with their intervals."""
    values = []
    for row in (row for name in experiments for row in section(name)["The paper's claims"]):
        found = re.match(r"([-+.\d]+) points \[([-+.\d]+), ([-+.\d]+)\]", row["evidence"])
        if found:
            here = dict(zip(("points", "low", "high"), map(float, found.groups()), strict=True))
            claim = re.sub(
                r"(, \w+ features)( above .*)\1", r"\2\1", row["claim"]
            )  # said once is enough
            values.append({"claim": claim, "verdict": row["here"], **here})
    claims = [value["claim"] for value in values]
    room = 6.8 * max(
        map(len, claims)
    )  # readers' fonts may be wider than the one that the chart is measured with
    base = alt.Chart(alt.Data(values=values), width=330).encode(
        y=alt.Y("claim:N", sort=claims, title=None, axis=alt.Axis(labelLimit=600, minExtent=room)),
        color=alt.Color(
            "verdict:N", scale=alt.Scale(domain=list(VERDICTS), range=list(VERDICTS.values()))
        ),
    )
    x = alt.Scale(
        domain=[min(0.0, *(v["low"] for v in values)), max(v["high"] for v in values)], nice=True
    )
    zero = (
        alt.Chart(alt.Data(values=[{"x": 0}]))
        .mark_rule(color="#57616c")
        .encode(x=alt.X("x:Q", scale=x))
    )
    ends = base.mark_rule().encode(
        x=alt.X("low:Q", scale=x, title="difference, points"), x2="high:Q"
    )
    dots = base.mark_circle(size=45, opacity=1).encode(
        x=alt.X("points:Q", scale=x, title="difference, points")
    )
    return alt.layer(zero, ends, dots)


def stochasticrank() -> Any:
    """What the parts of StochasticRank add, and how it compares."""
    return claims_of("stochasticrank-table3", "stochasticrank-table2")


def tricks() -> Any:
    """What smoothing adds to YetiLoss, and how the methods compare."""
    return claims_of("tricks-table3", "tricks-table2")


def xendcg() -> Any:
    """XE-NDCG and LambdaMART where training data are corrupted: figures 3 and 4 of the paper."""
    panels = []
    kinds = {
        "negatives": "xendcg-robustness",
        "random labels": "xendcg-robustness",
        "clicks": "xendcg-clicks",
    }
    for kind, experiment in kinds.items():
        values = []
        for row in section(experiment)["ndcg@5, per cent"]:
            system, _, condition = row["system"].partition(", ")
            level = re.search(r"[.\d]+", condition)
            if kind in condition or not condition:
                values.append(
                    {
                        "system": system,
                        "level": float(level[0]) if level else 0.0,
                        "value": row["here"],
                    }
                )
        title = "noise of clicks" if kind == "clicks" else f"{kind}, per cent"
        chart = alt.Chart(alt.Data(values=values), width=190, height=190, title=kind)
        panels.append(
            chart.mark_line(strokeWidth=2, point={"size": 30, "filled": True}).encode(
                x=alt.X("level:Q", title=title),
                y=alt.Y("value:Q", title="NDCG@5, per cent", scale=alt.Scale(zero=False)),
                color=alt.Color("system:N", sort=["XE-NDCG", "LambdaMART"]),
            )
        )
    return alt.hconcat(*panels)


def lambdaex() -> Any:
    """Quality against trees: figure 4 of the paper."""
    found = section(
        "lambdaex-table5",
        "generated, sparse, 1500 training queries of 120 documents, 3 worlds, k = 5",
    )
    rows = found["Figure 4: test ndcg@5 by number of trees, mean of the worlds"]
    shown = ["tau=inf", "eX static", "eX all", "eX static, literal", "tau=k+3", "tau=k"]
    values = [
        {"system": row["system"], "trees": int(trees), "value": float(value)}
        for row in rows
        if row["system"] in shown
        for trees, value in list(row.items())[1:]
    ]
    y = alt.Y("value:Q", title="NDCG@5, per cent", scale=alt.Scale(zero=False))
    return lines(values, "system", shown, y=y, logarithmic=False)


def softrank() -> Any:
    """Distance between NDCG and SoftRank's surrogate as the noise falls."""
    rows = section("softrank-directness")["NDCG less SoftNDCG, absolute"]
    values = [
        {"sigma": float(row["σ"]), "gap": float(row[which]), "of the queries": which}
        for row in rows
        for which in ("mean gap", "largest gap")
    ]
    axes = {"scale": alt.Scale(type="log"), "axis": alt.Axis(format="e", tickCount=5)}
    return (
        alt.Chart(alt.Data(values=values), width=560, height=200)
        .mark_line(strokeWidth=2, point={"size": 30, "filled": True})
        .encode(
            x=alt.X("sigma:Q", title="σ", **axes),
            y=alt.Y("gap:Q", title="NDCG less surrogate", **axes),
            color=alt.Color("of the queries:N", sort=["largest gap", "mean gap"]),
        )
    )


def comparison() -> Any:
    """Four peers less rankwright, untuned, on eight data sets."""
    values = []
    for name, label in DATA.items():
        for row in json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))["quality"]:
            if row["system"] in PEERS and row["target"] in METRICS:
                points = {key: round(100 * row[key], 2) for key in ("difference", "low", "high")}
                values.append(
                    {
                        "data": label,
                        "metric": METRICS[row["target"]],
                        "system": row["system"],
                        **points,
                    }
                )
    base = alt.Chart(alt.Data(values=values), width=310, height={"step": 11}).encode(
        y=alt.Y("data:N", title=None, sort=list(DATA.values()), axis=alt.Axis(minExtent=145)),
        yOffset=alt.YOffset("system:N", sort=PEERS),
        color=alt.Color("system:N", sort=PEERS),
    )
    scale = alt.Scale(domain=[-9, 10])
    x = alt.X(
        "difference:Q", title="peer less rankwright, points", scale=scale, axis=ticks(2, -8, 10)
    )
    zero = alt.Chart(alt.Data(values=[{"zero": 0}])).mark_rule(strokeDash=[3, 3]).encode(x="zero:Q")
    lines = base.mark_rule(strokeWidth=2, opacity=0.5).encode(
        x=alt.X("low:Q", title=""), x2="high:Q"
    )
    dots = base.mark_circle(size=45, opacity=1).encode(x=x)
    return side_by_side(zero, lines, dots, titles=list(METRICS.values()), field="metric")


def defaults() -> Any:
    """What two steps of the defaults were worth, by data."""
    steps = {
        "63 bins, 70 % of the columns": (
            "**2 permutations, 63 bins, ridge 1, 70 % of the columns**",
            "standard error",
        ),
        "random weights of queries": ("**temperature 0.7**", "standard error of the first row"),
    }
    values = []
    for step, (taken, spread) in steps.items():
        rows = next(
            rows
            for rows in map(by_first, tables("defaults.md"))
            if taken in rows and spread in rows
        )
        for data, cell in rows[taken].items():
            for metric, value, error in zip(
                METRICS.values(), pair(cell), pair(rows[spread][data]), strict=True
            ):
                ends = {"low": round(value - 2 * error, 2), "high": round(value + 2 * error, 2)}
                values.append(
                    {"step": step, "data": data, "metric": metric, "difference": value, **ends}
                )
    base = alt.Chart(alt.Data(values=values), width=310, height={"step": 13}).encode(
        y=alt.Y(
            "data:N",
            title=None,
            sort=["MQ2008", "MSLR", "web", "short", "sparse"],
            axis=alt.Axis(minExtent=70),
        ),
        yOffset=alt.YOffset("metric:N", sort=list(METRICS.values())),
        color=alt.Color("metric:N", sort=list(METRICS.values())),
    )
    x = alt.X(
        "difference:Q",
        title="difference, points",
        scale=alt.Scale(domain=[-1.5, 2.5]),
        axis=ticks(1, -1, 2),
    )
    zero = alt.Chart(alt.Data(values=[{"zero": 0}])).mark_rule(strokeDash=[3, 3]).encode(x="zero:Q")
    lines = base.mark_rule(strokeWidth=2, opacity=0.5).encode(
        x=alt.X("low:Q", title=""), x2="high:Q"
    )
    dots = base.mark_circle(size=45, opacity=1).encode(x=x)
    return side_by_side(zero, lines, dots, titles=list(steps), field="step")


def propensities() -> Any:
    """Estimated propensities of the first ten positions beside the true ones, by data and exponent."""
    measured = json.loads((RESULTS / "offline-evaluation.json").read_text(encoding="utf-8"))
    methods = {
        "swaps, whole list shuffled": "swaps",
        "harvest, two rankers": "harvest",
        "em, one ranker": "em",
    }
    values = []
    for kind in ("short", "web"):
        for row in measured[f"propensities {kind}"]["rows"]:
            if row["method"] in methods:
                title = f"{kind}, exponent {row['exponent']:g}"
                for position, value in enumerate(row["values"][:10], start=1):
                    point = {
                        "position": position,
                        "propensity": round(value, 4),
                        "method": methods[row["method"]],
                    }
                    point["beside"] = position + 0.2 * (list(methods).index(row["method"]) - 1)
                    values.append(
                        {"panel": title, "true": round(position ** -row["exponent"], 4), **point}
                    )
    titles = list(dict.fromkeys(value["panel"] for value in values))
    base = alt.Chart(alt.Data(values=values), width=230, height=170).encode(
        x=alt.X("position:Q", axis=ticks(1, 1, 10))
    )
    y = {"scale": alt.Scale(type="log", domain=[0.005, 1.2]), "title": "propensity"}
    true = base.mark_line(strokeDash=[4, 3], color="#57616c").encode(y=alt.Y("true:Q", **y))
    colour = alt.Color("method:N", sort=list(methods.values()))
    dots = base.mark_circle(size=35, opacity=1).encode(
        x=alt.X("beside:Q", title="position", axis=ticks(1, 1, 10)),
        y=alt.Y("propensity:Q", **y),
        color=colour,
    )
    panels = [
        alt.layer(
            *(mark.transform_filter(alt.datum.panel == title) for mark in (true, dots))
        ).properties(title=title)
        for title in titles
    ]
    return alt.vconcat(alt.hconcat(*panels[:2]), alt.hconcat(*panels[2:]))


def curves() -> Any:
    """Learning curves of two learning rates on training and validation queries."""
    values = pictures("curves")
    chart = alt.Chart(alt.Data(values=values), width=310, height=190).encode(
        x=alt.X("trees:Q"),
        y=alt.Y("value:Q", title="NDCG@10", scale=alt.Scale(domain=[0.2, 1])),
        color=alt.Color("run:N", sort=["steered rate", "rate 0.1"]),
    )
    panels = [
        chart.mark_line(strokeWidth=2, point={"size": 22, "filled": True})
        .transform_filter(alt.datum.part == part)
        .properties(title=f"{part} queries")
        for part in ("training", "validation")
    ]
    return alt.hconcat(*panels)


def ties() -> Any:
    """The metric of a growing model under each tie policy."""
    policies = ["best", "expected", "worst"]
    values = [row for row in pictures("ties") if row["policy"] in policies]
    return lines(
        values,
        "policy",
        policies,
        y=alt.Y("value:Q", title="NDCG@10", scale=alt.Scale(domain=[0.15, 0.6])),
    )


def incoherency() -> Any:
    """Share of queries with harmful pairs along the trees, by truncation."""
    order = ["top k", "top k + 3", "Lambda-eX", "all pairs"]
    y = alt.Y("share:Q", title="queries with harmful pairs", axis=alt.Axis(format="%"))
    return lines(pictures("incoherency"), "objective", order, y=y, logarithmic=False)


def positions() -> Any:
    """Share of the gradient by position of the ranking."""
    values = pictures("positions")
    order = list(dict.fromkeys(row["objective"] for row in values))
    return (
        alt.Chart(alt.Data(values=values), width=560, height=220)
        .mark_line(strokeWidth=2, point={"size": 22, "filled": True})
        .encode(
            x=alt.X(
                "position:Q",
                title="position in the current ranking",
                scale=alt.Scale(domain=[1, 30]),
            ),
            y=alt.Y(
                "share:Q",
                title="share of the gradient",
                scale=alt.Scale(type="log", domain=[0.004, 0.16]),
                axis=alt.Axis(format=".1%", values=[0.005, 0.01, 0.02, 0.05, 0.1]),
            ),
            color=alt.Color("objective:N", sort=order),
        )
    )


def pictures(name: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(
        (RESULTS / "pictures.json").read_text(encoding="utf-8")
    )[name]
    return rows


def lines(
    values: list[dict[str, Any]], field: str, order: list[str], y: Any, logarithmic: bool = True
) -> Any:
    """One line by number of trees for each value of a field."""
    axis = (
        {"scale": alt.Scale(type="log"), "axis": alt.Axis(values=[1, 2, 5, 10, 20, 50, 100])}
        if logarithmic
        else {}
    )
    return (
        alt.Chart(alt.Data(values=values), width=560, height=220)
        .mark_line(strokeWidth=2, point={"size": 30, "filled": True})
        .encode(x=alt.X("trees:Q", **axis), y=y, color=alt.Color(f"{field}:N", sort=order))
    )


def side_by_side(zero: Any, lines: Any, dots: Any, titles: list[str], field: str) -> Any:
    """One panel for each value of a field."""
    panels = [
        alt.layer(
            zero, *(mark.transform_filter(alt.datum[field] == title) for mark in (lines, dots))
        ).properties(title=title)
        for title in titles
    ]
    return alt.hconcat(*panels)


def ticks(step: int, first: int, last: int) -> Any:
    return alt.Axis(values=list(range(first, last + 1, step)))


def by_first(rows: list[dict[str, str]]) -> dict[str, dict[str, str]]:
    """Rows of a table by their first cell."""
    return {next(iter(row.values())): dict(list(row.items())[1:]) for row in rows}


def pair(cell: str) -> tuple[float, float]:
    first, second = map(float, cell.split(","))
    return first, second


FIGURES: dict[str, Callable[[], Any]] = {
    "papers": papers,
    **{
        f"papers-{chart.__name__}": chart
        for chart in (stochasticrank, tricks, xendcg, lambdaex, softrank)
    },
    "comparison": comparison,
    "defaults": defaults,
    "propensities": propensities,
    "curves": curves,
    "ties": ties,
    "incoherency": incoherency,
    "positions": positions,
}


def svg(chart: Any) -> str:
    """A chart in the style of the reports, on white, with the values as labels for screen readers."""
    spec = chart.to_dict()
    room = {
        "legend": {"columnPadding": 40}
    }  # the reader's font may be wider than the one that measured
    spec["config"] = merged(chart_config(), room) | {
        "background": "white",
        "aria": True,
        "padding": 8,
    }
    version = ".".join(alt.SCHEMA_VERSION.removeprefix("v").split(".")[:2])
    text: str = vl_convert.vegalite_to_svg(on_paper(spec), vl_version=version)
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / "docs" / "images")
    folder = parser.parse_args().folder
    for name, chart in FIGURES.items():
        (folder / f"{name}.svg").write_text(svg(chart()), encoding="utf-8")


if __name__ == "__main__":
    main()
