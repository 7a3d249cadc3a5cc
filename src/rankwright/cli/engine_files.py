"""Files of search engines for the command ``convert``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from rankwright import RankingData

_JSON = (".json", ".jsonl", ".ndjson")


def read_engine_file(
    source: Path, judgments: Path | None, queries: Path | None
) -> RankingData | None:
    """Read a feature log; return None if the file is not one by its name or the options."""
    name = source.name.removesuffix(".gz")
    if judgments is None and queries is None and not name.endswith(_JSON):
        return None
    from rankwright.data.search_engines.feature_log import read_feature_log

    return read_feature_log(source, judgments=judgments, queries=queries)


def write_click_log(queries: Path, events: Path, target: Path) -> None:
    """Write queries and events of User Behavior Insights as a click log."""
    from rankwright.clicks.ubi import read_ubi
    from rankwright.data.reading import write_table

    log = read_ubi(queries, events)
    columns = {
        "query": log.query.tolist(),
        "document": log.document.tolist(),
        "position": log.position.tolist(),
        "click": log.click.astype(np.int64).tolist(),
        "session": log.session.tolist(),
    }
    write_table(columns, target)


def write_ratings(source: Path, target: Path) -> None:
    """Write a judgment list as TREC qrels."""
    from rankwright.data.search_engines.judgments import read_judgments
    from rankwright.data.trec import Qrels, write_qrels

    judgments = read_judgments(source)
    if not np.array_equal(judgments.rating, np.trunc(judgments.rating)):
        raise ValueError(
            f"{source} has ratings that are not whole numbers, which qrels cannot hold; give it to "
            "--judgments as it is."
        )
    labels = judgments.rating.astype(np.int64)
    write_qrels(Qrels(judgments.qid.tolist(), judgments.docid.tolist(), labels), target)
