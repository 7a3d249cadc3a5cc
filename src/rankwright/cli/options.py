"""Options that several commands share, and how their values are parsed and printed."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from rankwright.cli import completion

Metrics = Annotated[
    str,
    typer.Option(
        metavar="METRICS", help="Space-separated metrics.", autocompletion=completion.metrics
    ),
]
Ties = Annotated[
    Literal["worst", "best", "expected", "input"], typer.Option(help="How ties are broken.")
]
Empty = Annotated[
    Literal["skip", "zero", "one"],
    typer.Option(help="Value of queries without a relevant document."),
]
Threads = Annotated[
    int | None,
    typer.Option(metavar="N", min=1, help="Number of threads [all cores].", show_default=False),
]
TargetVersion = Annotated[
    str | None,
    typer.Option(
        metavar="V",
        help="Version of the search engine; of Elasticsearch or of its LTR plug-in [the newest].",
        show_default=False,
    ),
]
Evaluator = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="How Vespa computes the forest: llvm, vmforest or fastforest [Vespa's choice].",
        show_default=False,
    ),
]
FeatureSetFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="JSON with the search engine's features: compared with those of the model, and RankLib takes their order.",
        show_default=False,
    ),
]
Pairs = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="CSV or Parquet of preferences in DATA: columns winner, loser and optionally weight, qid.",
        show_default=False,
    ),
]
Document = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN",
        help="Column of ids that --pairs names documents by [row numbers from 0].",
        show_default=False,
    ),
]
Stream = Annotated[
    bool | None,
    typer.Option(
        "--stream/--in-memory",
        help="Read Parquet or LETOR in blocks, or all at once; the result is the same [blocks for folders, patterns "
        "and what takes more than a quarter of the memory].",
        show_default=False,
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show errors and warnings only.")]
Reading = dict[str, Any]  # keyword arguments of `read_data`

# The keyword arguments of `read_data` that have a flag.
DATA_OPTIONS: dict[str, Any] = {
    "label": Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN",
            help="Label column of Parquet and CSV [label]; repeatable, the main one first.",
            show_default=False,
        ),
    ],
    "qid": Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN", help="Query column of Parquet and CSV [qid].", show_default=False
        ),
    ],
    "weight": Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN", help="Weight column of Parquet and CSV.", show_default=False
        ),
    ],
    "drop": Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN",
            help="Column of Parquet and CSV to ignore; repeatable.",
            show_default=False,
        ),
    ],
    "categorical": Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN", help="Column that holds categories; repeatable.", show_default=False
        ),
    ],
    "docid": Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Document id column of Parquet and CSV; LETOR has it in comments.",
            show_default=False,
        ),
    ],
    "query_text": Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Column of Parquet and CSV with the text of the query.",
            show_default=False,
        ),
    ],
    "zero_based": Annotated[
        bool | None,
        typer.Option(
            "--zero-based/--one-based", help="Index of the first LETOR feature.", show_default=False
        ),
    ],
}


def with_data_options(
    *, weight: bool = True
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Decorate a command with a parameter ``reading``: on the command line `DATA_OPTIONS` take its place.

    The command gets those that the user gave, as one dictionary.

    Parameters
    ----------
    weight
        Whether the command has the flag ``--weight``.
    """
    flags = [
        Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
        for name, annotation in DATA_OPTIONS.items()
        if weight or name != "weight"
    ]

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def run(**arguments: Any) -> None:
            values = {flag.name: arguments.pop(flag.name) for flag in flags}
            reading = {name: value for name, value in values.items() if value not in (None, [])}
            if len(reading.get("label", ())) == 1:
                reading["label"] = reading["label"][0]
            command(**arguments, reading=reading)

        parameters: list[Parameter] = []
        for parameter in signature(command, eval_str=True).parameters.values():
            keyword = parameter.replace(kind=Parameter.KEYWORD_ONLY)
            parameters += flags if parameter.name == "reading" else [keyword]
        run.__signature__ = Signature(parameters)  # type: ignore[attr-defined]  # typer reads it
        return run

    return decorate


def named_columns(clicks: Any) -> list[str]:
    """Columns that the table ``clicks`` of a config names."""
    known = ("position", "propensity", "clip", "self_normalised")
    if not isinstance(clicks, dict) or clicks.keys() - set(known):
        raise typer.BadParameter(f"clicks has the keys {', '.join(known)}; got {clicks!r}.")
    names = [clicks.get("position", []), clicks.get("propensity", [])]
    return [name for one in names for name in ([one] if isinstance(one, str) else one)]


def check_document(pairs: Path | None, document: str | None) -> None:
    """Refuse --document without --pairs."""
    if document is not None and pairs is None:
        raise typer.BadParameter("--document says how --pairs names documents; give --pairs too.")


def split_metrics(texts: str | list[str]) -> list[str]:
    """Split lists of metrics, those of a repeated option together; an unknown metric is a usage error."""
    from rankwright.metrics import metric, metric_texts

    try:
        names = [
            str(name) for name in metric_texts(texts if isinstance(texts, str) else " ".join(texts))
        ]
        for name in names:
            metric(name)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    if not names:
        raise typer.BadParameter("name at least one metric, such as ndcg@10.")
    return names


def literal(text: str) -> Any:
    """Parse a value as TOML; anything else is text, so that full and "full" are the same."""
    import tomllib

    try:
        document = tomllib.loads(f"value = {text.strip()}")
    except (tomllib.TOMLDecodeError, RecursionError):
        return text.strip()
    return document["value"] if len(document) == 1 else text.strip()


def streams(choice: bool | None, paths: Sequence[Path]) -> bool:
    """Whether to read files in blocks: as the user says, or because they are many or large."""
    from rankwright.data.files import rows_in_memory
    from rankwright.data.formats import format_of
    from rankwright.support.environment import memory_bytes

    several = any(
        not path.is_file() and (path.is_dir() or any(sign in str(path) for sign in "*?["))
        for path in paths
    )
    if choice is False and several:
        raise typer.BadParameter(
            "a folder or pattern is read in blocks; leave out --in-memory, or give one file."
        )
    if choice is not None or several:
        return bool(choice or several)
    if not all(format_of(path).in_blocks for path in paths):
        return False
    return 4 * sum(rows_in_memory(path) for path in paths) > memory_bytes() > 0


def split_setting(text: str) -> tuple[str, Any]:
    """Split ``KEY=VALUE`` of --set into the key and the parsed value."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise typer.BadParameter(f"{text!r} is not of the form KEY=VALUE.", param_hint="--set")
    return key.strip(), literal(value)


def check_given_once(name: str, others: Container[str]) -> None:
    """Refuse a parameter that both --set and a flag of its own give."""
    if name in others:
        raise typer.BadParameter(f"{name} is given twice, by --set and by its own flag; keep one.")


def to_json(value: Any) -> str:
    """Return JSON text; NaN and infinities become null."""
    import json
    import math

    def finite(item: Any) -> Any:
        if isinstance(item, dict):
            return {key: finite(inner) for key, inner in item.items()}
        if isinstance(item, list | tuple):
            return [finite(inner) for inner in item]
        return None if isinstance(item, float) and not math.isfinite(item) else item

    return json.dumps(finite(value), indent=1, allow_nan=False)
