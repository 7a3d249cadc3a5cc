"""Options that several commands share, and how their values are parsed and printed.

The options for data, for the parameters of `Ranker` and for clicks are tables in this file. Their
names are the names of the library's arguments. A command takes a table as a single parameter, for
example ``reading: options.Reading``, and gets the values that the user gave as a dictionary.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import typer
from typer import Argument, Option

from rankwright.cli import completion
from rankwright.cli.errors import usage_errors

# Arguments and options of single commands, with the type and the help that they have everywhere.
# Options without a default are None unless the user gives them; brackets show the library's default.
Model = Annotated[Path, Argument(metavar="RUN", help="Run folder or saved model.")]
Data = Annotated[Path, Argument(metavar="DATA", help="LETOR, Parquet or CSV.")]
Metrics = Annotated[
    str,
    Option(
        "--metrics",
        "--metric",
        metavar="METRICS",
        help="Space-separated metrics.",
        autocompletion=completion.metrics,
    ),
]
Ties = Annotated[Literal["worst", "best", "expected", "input"], Option(help="How ties are broken.")]
Empty = Annotated[
    Literal["skip", "zero", "one"], Option(help="Value of queries without a relevant document.")
]
Unjudged = Annotated[
    Literal["not-relevant", "condensed"],
    Option(help="Documents without a label: not relevant, or left out of the list."),
]
Pairs = Annotated[
    Path | None,
    Option(
        metavar="FILE",
        help="CSV or Parquet of preferences in DATA: columns winner, loser and optionally weight, qid.",
    ),
]
Document = Annotated[
    str | None,
    Option(
        metavar="COLUMN", help="Column of ids that --pairs names documents by [row numbers from 0]."
    ),
]
Stream = Annotated[
    bool | None,
    Option(
        "--stream/--in-memory",
        help="Read Parquet or LETOR in blocks, or all at once; the result is the same [blocks for folders, patterns "
        "and files that take more than a quarter of the memory].",
    ),
]
Valid = Annotated[
    Path | None,
    Option(metavar="DATA", help="Validation data; without it, DATA is split into folds by query."),
]
Folds = Annotated[
    str | None,
    Option(
        metavar="FOLDS",
        help='Number of folds, or folds in the order of time: time, or "time(5, gap=7)" [3].',
    ),
]
Objective = Annotated[
    str | None,
    Option(metavar="TEXT", help="Training objective [auto].", autocompletion=completion.objectives),
]
Trees = Annotated[
    int | None,
    Option("--n-estimators", "--trees", metavar="N", min=1, help="Number of trees [300]."),
]
Seed = Annotated[
    int | None, Option("--random-state", "--seed", metavar="N", min=0, help="Random seed [0].")
]
Threads = Annotated[
    int | None,
    Option("--n-jobs", "--threads", metavar="N", min=1, help="Number of threads [all cores]."),
]
Settings = Annotated[
    list[str] | None,
    Option("--set", metavar="KEY=VALUE", help="Any parameter of Ranker; repeatable."),
]
TargetVersion = Annotated[
    str | None,
    Option(
        metavar="V",
        help="Version of the search engine; of Elasticsearch or of its LTR plug-in [the newest].",
    ),
]
Evaluator = Annotated[
    str | None,
    Option(
        metavar="NAME",
        help="How Vespa computes the forest: llvm, vmforest or fastforest [Vespa's choice].",
    ),
]
FeatureSetFile = Annotated[
    Path | None,
    Option(
        metavar="FILE",
        help="JSON with the search engine's features: they are compared with the model's features, and RankLib takes "
        "their order.",
    ),
]
TrainingQueries = Annotated[
    Path | None,
    Option(
        "--train", metavar="DATA", help="Training queries, for the weights of linear:bm25,dense."
    ),
]
BaseScore = Annotated[
    str | None,
    Option(
        metavar="COLUMN",
        help="Column with the scores to start from: of Parquet and CSV, or a LETOR feature, such as f3.",
    ),
]
AsJson = Annotated[bool, Option("--json", help="Print JSON.")]
Quiet = Annotated[bool, Option("--quiet", "-q", help="Show errors and warnings only.")]

# Arguments of `read_data`. The options of a run stand in for arguments that the user does not give.
DATA_OPTIONS: dict[str, Any] = {
    "label": Annotated[
        list[str] | None,
        Option(
            metavar="COLUMN",
            help="Label column of Parquet and CSV [label]; repeatable, the main one first.",
        ),
    ],
    "qid": Annotated[
        str | None, Option(metavar="COLUMN", help="Query column of Parquet and CSV [qid].")
    ],
    "weight": Annotated[
        str | None, Option(metavar="COLUMN", help="Weight column of Parquet and CSV.")
    ],
    "drop": Annotated[
        list[str] | None,
        Option(
            metavar="COLUMNS", help="Columns of Parquet and CSV to ignore, as in a,b; repeatable."
        ),
    ],
    "categorical": Annotated[
        list[str] | None,
        Option(metavar="COLUMNS", help="Columns that hold categories, as in a,b; repeatable."),
    ],
    "docid": Annotated[
        str | None,
        Option(
            metavar="COLUMN",
            help="Document id column of Parquet and CSV; LETOR has it in comments.",
        ),
    ],
    "query_text": Annotated[
        str | None,
        Option(metavar="COLUMN", help="Column of Parquet and CSV with the text of the query."),
    ],
    "time": Annotated[
        str | None,
        Option(
            "--time-column",
            metavar="COLUMN",
            help="Column of Parquet and CSV with the time of each row, for --folds time.",
        ),
    ],
    "zero_based": Annotated[
        bool | None, Option("--zero-based/--one-based", help="Index of the first LETOR feature.")
    ],
}

# Parameters of `Ranker`. A test compares the defaults in brackets with the defaults of `Ranker`.
RANKER_OPTIONS: dict[str, Any] = {
    "objective": Objective,
    "metric": Annotated[
        list[str] | None,
        Option(
            "--metric",
            "--metrics",
            metavar="METRICS",
            help="Metric to optimise, then metrics to monitor; repeatable [ndcg@10].",
            autocompletion=completion.metrics,
        ),
    ],
    "within_query": Annotated[
        str | None,
        Option(
            metavar="KINDS",
            help="Features within the query to add: rank, z, gap, share, mean, max, rrf.",
        ),
    ],
    "start": Annotated[
        str | None,
        Option(
            metavar="START",
            help="Scores to start from: of a linear ranker, linear or linear-global.",
        ),
    ],
    "preset": Annotated[
        Literal["best"] | None,
        Option(help="best: linear start, ranks within the query, four members, refit on --valid."),
    ],
    "n_estimators": Trees,
    "early_stopping_rounds": Annotated[
        int | None,
        Option(
            "--early-stopping",
            metavar="TREES",
            min=1,
            help="Stop after this many trees without improvement on --valid.",
        ),
    ],
    "folds": Annotated[
        str | None,
        Option(
            metavar="FOLDS",
            help='Number of folds of --set early_stopping=cv, or folds in the order of time: "time(5, gap=7)".',
        ),
    ],
    "refit": Annotated[
        bool | None,
        Option(
            "--refit",
            help="Train once more on --valid too, with the number of trees that was chosen on it.",
        ),
    ],
    "random_state": Seed,
    "n_jobs": Threads,
}

# Arguments of `Ranker.fit` about clicks.
CLICK_OPTIONS: dict[str, Any] = {
    "position": Annotated[
        list[str] | None,
        Option(
            metavar="COLUMN",
            help="Column of Parquet and CSV with the position, or device, of each click; repeatable.",
        ),
    ],
    "propensity": Annotated[
        str | None,
        Option(
            metavar="COLUMN",
            help="Column of Parquet and CSV with the probability that a clicked document was seen.",
        ),
    ],
    "clip": Annotated[
        float | None, Option(help="Least propensity; smaller propensities count as it.")
    ],
    "self_normalised": Annotated[
        bool | None,
        Option(
            "--self-normalised",
            help="Divide inverse propensities of clicked documents by their mean.",
        ),
    ],
}


@dataclass(frozen=True)
class Group:
    """Options that a command gets as a dictionary."""

    options: Mapping[str, Any]


Given = dict[str, Any]
Reading = Annotated[Given, Group(DATA_OPTIONS)]
UnweightedReading = Annotated[
    Given, Group({name: option for name, option in DATA_OPTIONS.items() if name != "weight"})
]
RankerParameters = Annotated[Given, Group(RANKER_OPTIONS)]
ClickColumns = Annotated[Given, Group(CLICK_OPTIONS)]


def with_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Replace each parameter of a command that is a `Group` by the options of the group.

    The command gets a dictionary with the options that the user gave.
    """
    groups: dict[str, Group] = {}
    # The signature that typer sees has the options of a group in the place of the group.
    shown: list[Parameter] = []
    for parameter in signature(command, eval_str=True).parameters.values():
        # The last part of `Annotated[Given, Group(...)]` is the group.
        group = next(reversed(get_args(parameter.annotation)), None)
        if isinstance(group, Group):
            groups[parameter.name] = group
            for name, annotation in group.options.items():
                option = Parameter(name, Parameter.KEYWORD_ONLY, default=None)
                shown.append(option.replace(annotation=annotation))
        else:
            shown.append(parameter.replace(kind=Parameter.KEYWORD_ONLY))

    @wraps(command)
    def run(**arguments: Any) -> None:
        for parameter, group in groups.items():
            values = {name: arguments.pop(name) for name in group.options}
            # A repeatable option that is not given may be an empty list.
            given = {name: value for name, value in values.items() if value not in (None, [])}
            for name in given.keys() & {"categorical", "drop"}:
                parts = [part.strip() for text in given[name] for part in text.split(",")]
                given[name] = [part for part in parts if part]
            # The library takes a single label as text, and several as a list.
            if len(given.get("label", ())) == 1:
                given["label"] = given["label"][0]
            arguments[parameter] = given
        command(**arguments)

    run.__signature__ = Signature(shown)  # type: ignore[attr-defined]  # typer reads it
    return run


def check_document(pairs: Path | None, document: str | None) -> None:
    """Raise BadParameter if --document is given without --pairs."""
    if document is not None and pairs is None:
        raise typer.BadParameter("--document says how --pairs names documents; give --pairs too.")


def check_folds(valid: Path | None, folds: str | None) -> None:
    """Raise BadParameter if --folds is given with --valid, or cannot be read."""
    from rankwright.data.folds import Folds

    with usage_errors():
        Folds.of(folds, 3)
    if valid is not None and folds is not None:
        raise typer.BadParameter("--folds splits DATA in place of --valid; keep one of the two.")


def split_metrics(texts: str | list[str]) -> list[str]:
    """Split a list of metrics, or the lists of a repeated option; an unknown metric is a usage error."""
    from rankwright.metrics import metric, metric_texts

    # "ndcg@10 map" may be given in quotes, or as two options.
    text = texts if isinstance(texts, str) else " ".join(texts)
    with usage_errors():
        names = [str(name) for name in metric_texts(text)]
        # The metrics are parsed now, because an error after a long training would be late.
        for name in names:
            metric(name)
    if not names:
        raise typer.BadParameter("name at least one metric, such as ndcg@10.")
    return names


def literal(text: str) -> Any:
    """Parse a value as TOML; anything else is text, so that full and "full" are the same."""
    import tomllib

    text = text.strip()
    # TOML has the same numbers, booleans, lists and tables as the config file of a run.
    try:
        document = tomllib.loads(f"value = {text}")
    except (tomllib.TOMLDecodeError, RecursionError):
        return text
    if len(document) > 1:  # the text has lines with further keys
        return text
    return document["value"]


def split_setting(text: str) -> tuple[str, Any]:
    """Split ``KEY=VALUE`` of --set into the key and the parsed value."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise typer.BadParameter(f"{text!r} is not of the form KEY=VALUE.", param_hint="--set")
    return key.strip(), literal(value)


def check_given_once(name: str, flags: Container[str]) -> None:
    """Raise BadParameter if both --set and an option give a parameter."""
    if name in flags:
        raise typer.BadParameter(f"{name} is given twice, by --set and by its own flag; keep one.")


def to_json(value: Any) -> str:
    """Return JSON text; NaN and infinities become null."""
    import json

    return json.dumps(_finite(value), indent=1, allow_nan=False)


def _finite(value: Any) -> Any:
    import math

    # JSON has no NaN, and many parsers stop at Python's way to write it.
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
