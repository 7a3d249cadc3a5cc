"""Values per row that are not features travel with the rows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from rankwright import RankingData, read_data, write_data

FRAME = pd.DataFrame(
    {
        "bm25": [0.5, 0.1, 0.9, 0.4, 0.3],
        "url": ["e", "a", "i", "d", "c"],
        "position": [2, 1, 1, 3, 2],
        "qid": [7, 3, 3, 7, 7],
        "y": [1, 0, 2, 0, 1],
    }
)


def data() -> RankingData:
    return RankingData(FRAME, "y", qid="qid", fields=["url", "position"])


def rows(part: RankingData) -> list[tuple[float, str, int]]:
    return list(
        zip(
            part.X[:, 0].tolist(),
            part.fields["url"].tolist(),
            part.fields["position"].tolist(),
            strict=True,
        )
    )


TOGETHER = set(zip(FRAME["bm25"], FRAME["url"], FRAME["position"], strict=True))


def test_they_are_no_features_and_stay_with_their_row() -> None:
    part = data()
    assert part.feature_names == ["bm25"]
    assert part.qid.tolist() == [3, 3, 7, 7, 7]
    assert set(rows(part)) == set(rows(part.canonical())) == TOGETHER
    assert set(rows(RankingData.concatenate([part.subset([1]), part.subset([0])]))) == TOGETHER
    assert set(rows(part.subset([1]))) == {row for row in TOGETHER if row[1] in "edc"}


def test_a_parquet_file_keeps_them(tmp_path: Path) -> None:
    write_data(data(), tmp_path / "data.parquet")
    assert rows(read_data(tmp_path / "data.parquet")) == rows(data())


def test_rows_alike_but_for_a_number_are_ordered_by_it() -> None:
    positions = np.arange(6)
    same, other = (
        RankingData(
            np.ones((6, 1)), np.ones(6), qid=np.zeros(6), fields={"position": positions[order]}
        ).canonical()
        for order in ([0, 1, 2, 3, 4, 5], [3, 1, 5, 0, 4, 2])
    )
    assert same.fields["position"].tolist() == other.fields["position"].tolist()


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"url": ["a"]}, r"the field 'url' has shape \(1,\) for 2 rows"),
        (["url"], "names columns, but X is a ndarray without column names"),
    ],
)
def test_refusals(fields: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        RankingData(np.eye(2), [0, 1], qid=[1, 1], fields=fields)  # type: ignore[arg-type]


def test_parts_need_the_same_fields() -> None:
    other = RankingData(FRAME[["bm25"]], FRAME["y"], qid=FRAME["qid"] + 100)
    with pytest.raises(ValueError, match="the parts have different fields"):
        RankingData.concatenate([data(), other])
