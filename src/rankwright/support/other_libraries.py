"""Objects, files and names of objectives of other libraries: tell what they are, without an import."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rankwright.support.files import PathLike

_LIBRARIES = {
    "lightgbm": "LightGBM",
    "xgboost": "XGBoost",
    "catboost": "CatBoost",
    "pyspark": "Spark",
}
# How files begin, a word among their first bytes, and what they are.
_FILES = (
    (b"tree\n", b"version=", "a model of LightGBM"),
    (b"{", b"learner", "a model of XGBoost"),
    (b"{", b"features_info", "a model of CatBoost"),
    (b"CBM1", b"", "a model of CatBoost"),
    (b"\x80", b"", "a pickle"),
)
# Objectives of other libraries in lower case, and how to write them here (docs/migrating.md).
_OBJECTIVES = {
    "lambdarank": "objective='lambdamart(truncation=30, normalize=True)', metric='ndcg@30'",
    "rank_xendcg": "objective='xendcg'",
    "rank:ndcg": "objective='lambdamart(truncation=32, normalize=True)', metric='ndcg@32'",
    "rank:map": "objective='lambdamart', metric='map'",
    "rank:pairwise": "objective='ranknet'",
    "yetirank:": "objective='yetiloss', metric='ndcg(gain=linear)@10'",
    "yetirankpairwise": "objective='yetirank', leaf_values='full'",
    "stochasticrank:": "objective='stochasticrank', metric='ndcg(gain=linear)@10'",
    "lambdamart:": "objective='lambdamart(normalize=True)', metric='ndcg(gain=linear)'",
    "pairlogit": "objective='ranknet'",
    "querysoftmax": "objective='listnet'",
    "stochasticfilter": "objective='stochasticrank', metric='dcg-rr'",
}


def library_of(value: Any) -> str | None:
    """Return the library that defines the class of an object, or a base of it; None for others.

    Examples
    --------
    >>> library_of("a text") is None
    True
    """
    for kind in type(value).__mro__:
        library = _LIBRARIES.get(kind.__module__.partition(".")[0])
        if library is not None:
            return library
    return None


def refuse_other_table(X: Any) -> None:
    """Raise ValueError if the rows are an object of another library."""
    library = library_of(X)
    if library is None:
        return
    remedy = "the array or data frame that it was made of"
    if library == "Spark":
        remedy = "X.toPandas(), or the Parquet files that it is stored in"
    raise ValueError(f"X is a {type(X).__name__} of {library}; give {remedy}.")


def kind_of_file(path: PathLike) -> str | None:
    """Return what a file of others is, for example ``"a model of LightGBM"``, by its first bytes."""
    if not Path(path).is_file():
        return None
    with open(path, "rb") as file:
        start = file.read(40)
    for beginning, word, kind in _FILES:
        if start.startswith(beginning) and word in start:
            return kind
    return None


def check_other_name(text: str) -> None:
    """Raise ValueError if a text is an objective or a metric in the notation of another library.

    Examples
    --------
    >>> check_other_name("rank:pairwise")
    Traceback (most recent call last):
    ValueError: 'rank:pairwise' is the name of an objective elsewhere; here it is objective='ranknet'.
    """
    name, colon, _ = text.strip().lower().partition(":")
    for known in (text.strip().lower(), name + colon):
        if known in _OBJECTIVES:
            raise ValueError(
                f"{text!r} is the name of an objective elsewhere; here it is {_OBJECTIVES[known]}."
            )
    if "@" in text and text.endswith("-"):
        raise ValueError(
            f"{text!r} is XGBoost's notation; write {text[:-1]!r}, and empty='zero' in evaluate."
        )
