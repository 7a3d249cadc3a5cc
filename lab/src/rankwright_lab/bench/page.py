"""Report pages on benchmark results of `rankwright_lab.bench`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rankwright.charts.theme import require
from rankwright.report.page import Block, Cell, Figure, Page, Section, Table, Text
from rankwright_lab.bench.result_files import SCALING

_Result = Mapping[str, Any]

_TERMS = (
    "All systems have the same folds, seeds, number of trees and threads, and take turns. The tested number of trees "
    "is chosen on the validation queries. Documents of equal score are ranked in the worst order.",
    "Training and prediction are medians over folds and seeds, including the library's own preparation of the rows. "
    "Gradients are per tree: rankwright's as timed during training, with leaf values if the objective computes them; a "
    "peer's as the time that its objective adds to the cheapest objective of its library, on stumps and four columns. "
    "Peak memory is that of a separate process; added memory is what training adds to data, libraries and compiled "
    "code.",
    "The time to a level is the training time until the validation value reaches it, if all trees cost the same. The "
    "level is a share of the best value of any system on the fold. Trainings that never reach it count as infinitely "
    "long, so the median is missing if fewer than half reach it.",
)


def benchmark_report(result: _Result, *, title: str | None = None) -> Page:
    """Report on a result of `run_bench` or `run_scaling`.

    Parameters
    ----------
    result
        The result, as `read_result` returns it.
    title
        Title of the page.

    Examples
    --------
    >>> from rankwright_lab.bench import QUICK, run_scaling
    >>> from rankwright_lab.harness import RankwrightSystem
    >>> page = benchmark_report(run_scaling(QUICK, systems=[RankwrightSystem("rankwright")]))
    >>> [section.title for section in page.sections]
    ['Exponents', 'Gradients', 'Training', 'Environment']
    """
    if result["format"] == SCALING:
        return _scaling_page(result, title or "How time grows")
    settings = result["settings"]
    first = result["systems"][0]["name"]
    sections = [
        *(
            Section(f"Quality by {target}", _quality(result, target))
            for target in settings["targets"]
        ),
        *(Section(f"Speed for {target}", _speed(result, target)) for target in settings["targets"]),
        *_changes(result),
        Section(
            "What was measured", [Text("\n\n".join(_TERMS)), _data(result), _parameters(result)]
        ),
        Section("Environment", [_environment(result)]),
    ]
    subtitle = (
        f"{settings['trees']} trees, {settings['seeds']} seed(s), {settings['threads']} thread(s), "
        f"{result['date']}"
    )
    return Page(title or f"{first} and its peers", sections, subtitle)


def quality_table(result: _Result, target: str) -> Table:
    """Return the mean of each system on each data set."""
    rows = [row for row in result["quality"] if row["target"] == target]
    data = list(dict.fromkeys(row["data"] for row in rows))
    first = rows[0]["system"]
    cells = {
        (row["system"], row["data"]): f"{row['mean']:.4f}{'*' if row['significant'] else ''}"
        for row in rows
    }
    systems = list(dict.fromkeys(row["system"] for row in rows))
    body = [[system, *(cells[system, name] for name in data)] for system in systems]
    note = (
        f"* differs significantly from {first} (p ≤ 0.05 after Holm's correction over the systems)."
    )
    return Table(f"Mean {target}", ["system", *data], body, note)


def paired_table(result: _Result, target: str) -> Table:
    """Compare each system with the first, on all data pooled."""
    rows = _pooled(result, target)
    body: list[list[Cell]] = [
        [
            row["system"],
            f"{row['difference']:+.4f}",
            f"[{row['low']:+.4f}, {row['high']:+.4f}]",
            f"{row['wins']}/{row['ties']}/{row['losses']}",
            "<0.0001" if row["p_adjusted"] < 0.0001 else f"{row['p_adjusted']:.4f}",
            f"{row['trees']:.0f}",
        ]
        for row in rows[1:]
    ]
    return Table(
        f"{target} against {rows[0]['system']}",
        ["system", "difference", "95% interval", "larger/same/smaller", "p", "trees"],
        body,
        f"On {rows[0]['queries']:,} test queries of {rows[0]['data']}: Fisher's randomisation test, two-sided, "
        "p-values with Holm's correction over the systems; intervals are bootstrapped. Below 0: "
        f"{rows[0]['system']} is higher. Trees: mean of the chosen numbers.",
    )


def speed_table(result: _Result, target: str, data: str) -> Table:
    """Return times and memory of each system on a data set."""
    body: list[list[Cell]] = [
        [
            row["system"],
            _short(row["fit_seconds"]),
            _short(row["gradient_ms"]),
            _short(row["predict_seconds"]),
            _short(row["peak_mb"]),
            _short(row["added_mb"]),
            _short(row["reach_seconds"]),
            f"{100 * row['reached']:.0f}%",
        ]
        for row in result["speed"]
        if row["target"] == target and row["data"] == data
    ]
    level = next(
        row["level"] for row in result["speed"] if row["target"] == target and row["data"] == data
    )
    columns = [
        "system",
        "training s",
        "gradient ms/tree",
        "prediction s",
        "peak MB",
        "added MB",
        "to level s",
        "reached",
    ]
    note = f"The level is {target} {level:.4f} on the validation queries, the mean over folds."
    return Table(f"Time and memory on {data}", columns, body, note)


def equal_table(result: _Result, target: str) -> Table | None:
    """Return the time of the first system to the best validation value of each other one; None without others."""
    rows = [row for row in result["equal_quality"] if row["target"] == target]
    first = result["systems"][0]["name"]
    body: list[list[Cell]] = [
        [
            row["data"],
            row["system"],
            _short(row["own_seconds"]),
            _short(row["first_seconds"]),
            _short(row["ratio"]),
            f"{100 * row['reached']:.0f}%",
        ]
        for row in rows
    ]
    if not body:
        return None
    columns = ["data", "system", "to its best s", f"{first} to there s", "ratio", "reached"]
    note = f"Reached: trainings in which {first} reaches the other's best validation value. The rest count as never."
    return Table(f"At equal {target}", columns, body, note)


def changes_table(result: _Result) -> Table | None:
    """Return the ratios to an earlier result; None if the result was not compared with one."""
    against = result.get("against")
    if against is None:
        return None
    body: list[list[Cell]] = [
        [
            row["what"],
            row["measure"],
            _short(row["old"]),
            _short(row["new"]),
            f"{row['ratio']:.3f}",
            "worse" if row["worse"] else "",
        ]
        for row in against["rows"]
    ]
    count = sum(row["worse"] for row in against["rows"])
    note = f"{count} of {len(body)} are worse: more than 10% slower or larger, or a mean lower by more than 0.5%."
    note += "".join(f" {line[0].upper()}{line[1:]}." for line in against["notes"])
    return Table(
        f"Ratios to {against['date']}", ["what", "measure", "old", "new", "ratio", ""], body, note
    )


def exponents_table(result: _Result) -> Table:
    """Return each curve with its ends and its exponent."""
    body: list[list[Cell]] = [
        [
            curve["what"],
            curve["case"],
            f"{curve['over']} {curve['sizes'][0]:,} to {curve['sizes'][-1]:,}",
            curve["threads"],
            _short(curve["seconds"][0]),
            _short(curve["seconds"][-1]),
            None if curve["exponent"] is None else f"{curve['exponent']:.2f}",
            None if curve["error"] is None else f"{curve['error']:.2f}",
        ]
        for curve in result["curves"]
    ]
    columns = ["what", "case", "over", "threads", "first s", "last s", "exponent", "standard error"]
    note = (
        "Exponent: slope of log time over log size, by least squares. While the length of queries grows, the number of "
        "documents stays the same: an exponent of 0 means time proportional to the documents."
    )
    return Table("Exponents", columns, body, note)


def _quality(result: _Result, target: str) -> list[Block]:
    blocks: list[Block] = [quality_table(result, target)]
    if len(result["systems"]) > 1:
        blocks += [_differences(result, target), paired_table(result, target)]
    others = _other_metrics(result, target)
    return [*blocks, others] if others.rows else blocks


def _other_metrics(result: _Result, target: str) -> Table:
    rows = _pooled(result, target)
    metrics = [name for name in rows[0]["means"] if name != target]
    body = [[row["system"], *(row["means"][name] for name in metrics)] for row in rows]
    return Table(
        f"Other metrics of models for {target}", ["system", *metrics], body if metrics else []
    )


def _pooled(result: _Result, target: str) -> list[dict[str, Any]]:
    """Return the rows of all data pooled, or of the only data set."""
    rows = [row for row in result["quality"] if row["target"] == target]
    return [row for row in rows if row["data"] == rows[-1]["data"]]


def _differences(result: _Result, target: str) -> Figure:
    alt = require("altair")
    rows = _pooled(result, target)
    values = [
        {key: row[key] for key in ("system", "difference", "low", "high")} for row in rows[1:]
    ]
    title = f"difference of mean {target} from {rows[0]['system']}"
    order = [row["system"] for row in sorted(values, key=lambda row: -row["difference"])]
    base = alt.Chart(alt.Data(values=values)).encode(
        y=alt.Y("system:N", sort=order, title=None, axis=alt.Axis(labelLimit=300))
    )
    interval = base.mark_rule(strokeWidth=2).encode(x=alt.X("low:Q", title=title), x2="high:Q")
    points = base.mark_point(filled=True, size=70, opacity=1).encode(
        x="difference:Q",
        tooltip=[
            "system:N",
            *(alt.Tooltip(f"{k}:Q", format="+.4f") for k in values[0] if k != "system"),
        ],
    )
    zero = alt.Chart(alt.Data(values=[{"x": 0}])).mark_rule(strokeDash=[4, 4]).encode(x="x:Q")
    best = max(values, key=lambda row: row["difference"])
    summary = f"The highest other system is {best['system']} at {best['difference']:+.4f}."
    return Figure(
        f"Against {rows[0]['system']} by {target}",
        zero + interval + points,
        f"Differences with 95% intervals. {summary}",
    )


def _time_ratios(result: _Result, target: str) -> Figure:
    alt = require("altair")
    rows = [row for row in result["speed"] if row["target"] == target]
    first = rows[0]["system"]
    base = {row["data"]: row["fit_seconds"] for row in rows if row["system"] == first}
    values = [
        {
            "data": row["data"],
            "system": row["system"],
            "ratio": row["fit_seconds"] / base[row["data"]],
        }
        for row in rows
        if row["system"] != first
    ]
    fastest = min(values, key=lambda row: row["ratio"])
    tooltip = ["data:N", "system:N", alt.Tooltip("ratio:Q", format=".2f")]
    points = (
        alt.Chart(alt.Data(values=values))
        .mark_point(filled=True, size=70, opacity=1)
        .encode(
            x=alt.X("ratio:Q", title=f"time as a multiple of {first}", scale=alt.Scale(type="log")),
            y=alt.Y("system:N", sort=None, title=None, axis=alt.Axis(labelLimit=300)),
            color="data:N",
            tooltip=tooltip,
        )
    )
    one = alt.Chart(alt.Data(values=[{"x": 1}])).mark_rule(strokeDash=[4, 4]).encode(x="x:Q")
    summary = f"The shortest is {fastest['system']} on {fastest['data']}: {fastest['ratio']:.2f} times {first}."
    return Figure(
        f"Training time for {target}",
        one + points,
        f"Training times relative to {first}. {summary}",
    )


def _speed(result: _Result, target: str) -> list[Block]:
    names = dict.fromkeys(row["data"] for row in result["speed"])
    blocks: list[Block] = [speed_table(result, target, name) for name in names]
    equal = equal_table(result, target)
    return blocks if equal is None else [_time_ratios(result, target), *blocks, equal]


def _changes(result: _Result) -> list[Section]:
    table = changes_table(result)
    return [] if table is None else [Section("Since an earlier result", [table])]


def _data(result: _Result) -> Table:
    columns = ["name", "queries", "documents", "features"]
    return Table("Data", columns, [[row[key] for key in columns] for row in result["data"]])


def _parameters(result: _Result) -> Table:
    body = [
        [
            system["name"],
            " ".join(
                f"{key}={value}"
                for key, value in system["parameters"].items()
                if key not in ("verbose", "n_jobs")
            ),
        ]
        for system in result["systems"]
    ]
    return Table(
        "Systems", ["system", "parameters"], body, "Other parameters have the library's defaults."
    )


def _environment(result: _Result) -> Table:
    environment = dict(result["environment"])
    packages = {
        name: version or "not installed" for name, version in environment.pop("packages").items()
    }
    rows: list[Sequence[Cell]] = [
        [key, str(value)] for key, value in (environment | packages).items()
    ]
    return Table("", ["what", "value"], rows)


def _scaling_page(result: _Result, title: str) -> Page:
    sections = [
        Section("Exponents", [exponents_table(result)]),
        Section("Gradients", [*_growth_figures(result, "gradient"), _per_document(result)]),
        Section("Training", [*_growth_figures(result, "training")]),
        *_changes(result),
        Section("Environment", [_environment(result)]),
    ]
    return Page(
        title, sections, f"{result['settings']['trees']} trees per training, {result['date']}"
    )


def _growth_figures(result: _Result, what: str) -> list[Figure]:
    alt = require("altair")
    curves = [curve for curve in result["curves"] if curve["what"] == what]
    figures = []
    for over in dict.fromkeys(curve["over"] for curve in curves):
        values = [
            {
                "case": curve["case"],
                "size": size,
                "seconds": seconds,
                "threads": f"{curve['threads']} thread(s)",
            }
            for curve in curves
            if curve["over"] == over
            for size, seconds in zip(curve["sizes"], curve["seconds"], strict=True)
        ]
        log = alt.Scale(type="log", nice=False)
        chart = (
            alt.Chart(alt.Data(values=values))
            .mark_line(point=True)
            .encode(
                x=alt.X("size:Q", title=over, scale=log),
                y=alt.Y("seconds:Q", title="seconds", scale=alt.Scale(type="log")),
                color=alt.Color("case:N", legend=alt.Legend(columns=1)),
                strokeDash=alt.StrokeDash("threads:N"),
                tooltip=["case:N", "threads:N", "size:Q", alt.Tooltip("seconds:Q", format=".3~g")],
            )
        )
        exponents = ", ".join(
            f"{curve['case']} with {curve['threads']} thread(s) {curve['exponent']:.2f}"
            for curve in curves
            if curve["over"] == over and curve["exponent"] is not None
        )
        figures.append(
            Figure(f"{what.capitalize()} over {over}", chart, f"Exponents: {exponents or 'none'}.")
        )
    return figures


def _per_document(result: _Result) -> Table:
    """Return time and memory per document for queries of about 1000 documents and for the longest ones."""
    total = result["settings"]["total"]
    body: list[list[Cell]] = []
    for curve in result["curves"]:
        if curve["what"] == "gradient" and curve["over"] == "query length":
            near = min(range(len(curve["sizes"])), key=lambda i: abs(curve["sizes"][i] - 1000))
            small, large = (1e9 * curve["seconds"][i] / total for i in (near, -1))
            ends = [
                f"{small:.1f} at {curve['sizes'][near]:,}",
                f"{large:.1f} at {curve['sizes'][-1]:,}",
            ]
            memory = f"{curve['bytes_per_document'][-1]:.0f}"
            body.append([curve["case"], curve["threads"], *ends, f"{large / small:.2f}", memory])
    columns = [
        "objective",
        "threads",
        "ns/document",
        "in the longest query",
        "ratio",
        "bytes/document",
    ]
    return Table("Per document", columns, body, f"{total:,} documents in total.")


def _short(value: float | None) -> str | None:
    """Format with three digits, without an exponent."""
    if value is None:
        return None
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:#.3g}".rstrip(".")
