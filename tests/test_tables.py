"""Ranking data in files: every format reads back what was written, and errors are one sentence."""

from __future__ import annotations

import errno
import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.csv
import pytest

from rankwright import RankingData, read_data, read_letor, write_data
from rankwright.data.documents import document_names
from rankwright.data.reading import read_parts, write_table

NAN = float("nan")
X = [
    [-0.0, 5e-324, 0.1 + 0.2],
    [1.0, NAN, 1e308],
    [2.0, -1.5, NAN],
    [3.0, 1 / 3, 123456789.123456789],
    [-4.0, 2**53, 1e-300],
]
Y = [0, 2, 1, 0.5, 3]
LETOR = ["a.txt", "a.letor", "a.svm.gz"]
TEXT_FORMATS = [*LETOR, "a.csv", "a.tsv", "a.csv.gz"]
FORMATS = [*TEXT_FORMATS, "a.parquet", "a.pq", "a.arrow", "a.feather"]


def bits(matrix: Any) -> Any:
    values = np.array(matrix, dtype=np.float64)
    values[np.isnan(values)] = NAN  # one of the many ways to write it
    return values.view(np.uint64)


def same(data: RankingData, other: RankingData) -> bool:
    return (
        np.array_equal(bits(data.X), bits(other.X))
        and np.array_equal(data.y, other.y)
        and data.qid.tolist() == other.qid.tolist()
    )


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("qid", [[3, 12, 3, 5, 12], ["b", "a", "b", "c", "a"]])
def test_what_is_written_is_read_back_bit_by_bit(tmp_path: Path, name: str, qid: list[Any]) -> None:
    data = RankingData(X, Y, qid=qid, feature_names=["f0", "f1", "f2"])
    write_data(data, tmp_path / name)
    back = read_data(tmp_path / name)
    assert same(data, back)
    assert back.feature_names == (["f1", "f2", "f3"] if name in LETOR else ["f0", "f1", "f2"])
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_random_doubles_survive_a_walk_through_all_formats(tmp_path: Path) -> None:
    drawn = np.random.default_rng(3).integers(0, 2**64, (400, 5), dtype=np.uint64).view(np.float64)
    drawn[~np.isfinite(drawn)] = NAN
    data = RankingData(drawn, np.arange(400) % 4, qid=np.arange(400) // 10)
    before = data
    for name in (*FORMATS, "b.txt"):
        write_data(before, tmp_path / name)
        before = read_data(tmp_path / name)
    assert same(data, before)


def test_gz_text_is_compressed(tmp_path: Path) -> None:
    write_data(RankingData(X, Y, qid=[1, 1, 1, 2, 2]), tmp_path / "a.csv.gz")
    assert gzip.decompress((tmp_path / "a.csv.gz").read_bytes()).startswith(b'"label","qid","f0"')


@pytest.mark.parametrize("name", ["a.csv", "a.parquet", "a.arrow"])
def test_weights_are_kept_by_formats_that_hold_them(tmp_path: Path, name: str) -> None:
    data = RankingData(X, Y, qid=[1, 1, 1, 2, 2], sample_weight=[0.1, 0.7])
    write_data(data, tmp_path / name)
    back = read_data(tmp_path / name, weight="weight")
    assert back.weights is not None
    assert back.weights.tolist() == [0.1, 0.1, 0.1, 0.7, 0.7]
    assert back.feature_names == ["f0", "f1", "f2"]
    with pytest.raises(ValueError, match="cannot hold weights"):
        write_data(data, tmp_path / "a.txt")


def test_names_of_columns(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("url,grade,bm25,query,trust\nx,1,0.5,q1,3\ny,0,0.25,q1,4\n")
    data = read_data(path, label="grade", qid="query", drop=["url"])
    assert data.feature_names == ["bm25", "trust"]
    assert data.X.tolist() == [[0.5, 3.0], [0.25, 4.0]]
    assert data.y.tolist() == [1.0, 0.0]
    assert data.query_ids.tolist() == ["q1"]


@pytest.mark.parametrize("name", ["a.csv", "a.parquet", "a.arrow"])
@pytest.mark.parametrize("option", ["label", "qid", "weight", "drop", "categorical"])
def test_a_missing_column(tmp_path: Path, name: str, option: str) -> None:
    write_data(RankingData(X, Y, qid=[1, 1, 1, 2, 2]), tmp_path / name)
    chosen: Any = ["colour"] if option in ("drop", "categorical") else "colour"
    with pytest.raises(
        ValueError,
        match=rf"{name} has no column 'colour'; it has label, qid, f0, f1, f2\. .*{option}",
    ):
        read_data(tmp_path / name, **{option: chosen})


def test_missing_values_of_a_table(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("label,qid,a,b\n0,1,,1\n1,1,NA,nan\n0,1,2.5,NaN\n")
    assert np.array_equal(read_data(path).X, [[NAN, 1], [NAN, NAN], [2.5, NAN]], equal_nan=True)


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        (["10", "9", "-3"], [-3, 9, 10]),
        (["2020-01-02", "2020-01-01", "2020-01-03"], ["2020-01-01", "2020-01-02", "2020-01-03"]),
        (["true", "1", "2"], ["1", "2", "true"]),
        (["0.5", "1", "2"], ["0.5", "1", "2"]),
    ],
)
def test_query_ids_of_a_table_are_whole_numbers_or_text(
    tmp_path: Path, ids: list[str], expected: list[Any]
) -> None:
    path = tmp_path / "a.csv"
    path.write_text("label,qid,a\n" + "".join(f"0,{qid},1\n" for qid in ids))
    assert read_data(path).query_ids.tolist() == expected


def test_categories(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text('label,qid,site,a\n0,1,org,1\n1,1,"NA",2\n0,2,com,3\n1,2,,4\n')
    train = read_data(path, categorical=["site"])
    assert train.categories == {"site": ("NA", "com", "org")}
    assert np.array_equal(train.X[:, 0], [2, 0, 1, NAN], equal_nan=True)
    for name in ("b.csv", "b.parquet", "b.arrow"):
        write_data(train, tmp_path / name)
        again = read_data(tmp_path / name, categorical=["site"])
        assert same(train, again)
        assert again.categories == train.categories
    path.write_text("a,label,qid,site\n5,0,1,net\n6,1,1,org\n")
    test = read_data(path, reference=train)
    assert test.feature_names == ["site", "a"]
    assert np.array_equal(test.X, [[NAN, 5], [2, 6]], equal_nan=True)
    with pytest.raises(ValueError, match=r"a\.csv: column 'site' has the type String.*categorical"):
        read_data(path)


def test_categories_that_look_like_numbers_are_read_as_the_training_data_has_them(
    tmp_path: Path,
) -> None:
    path = tmp_path / "a.csv"
    path.write_text("label,qid,zip\n0,1,x1\n1,1,7\n")
    train = read_data(path, categorical=["zip"])
    path.write_text("label,qid,zip\n0,1,7\n1,1,8\n")
    assert np.array_equal(read_data(path, reference=train).X[:, 0], [0, NAN], equal_nan=True)


def test_columns_that_are_left_out_of_training_data_may_be_absent_later(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("label,qid,url,a\n0,1,x,1\n1,1,y,2\n")
    train = read_data(path, drop=["url"])
    path.write_text("label,qid,a\n0,1,1\n1,1,2\n")
    assert read_data(path, drop=["url"], reference=train).feature_names == ["a"]


@pytest.mark.parametrize("name", FORMATS)
def test_letor_text_takes_the_width_of_a_reference_and_rows_to_predict_need_no_labels(
    tmp_path: Path, name: str
) -> None:
    train = RankingData(X, Y, qid=[1, 1, 1, 2, 2])
    write_data(train, tmp_path / "train.txt")
    train = read_letor(tmp_path / "train.txt")
    write_data(train, tmp_path / name)
    rows = read_data(tmp_path / name, labelled=False, reference=train)
    assert np.array_equal(bits(rows.X), bits(train.X))
    assert rows.y.tolist() == [0] * 5
    (tmp_path / "short.txt").write_text("2 qid:4 1:7\n")
    with pytest.warns(
        UserWarning, match=r"short\.txt has no features 2 to 3 of the training data; taken as 0"
    ):
        short = read_data(tmp_path / "short.txt", labelled=False, reference=train)
    assert short.X.tolist() == [[7, 0, 0]]
    (tmp_path / "bare.csv").write_text("qid,f3,f1,f2\n4,0,7,0\n")
    assert read_data(tmp_path / "bare.csv", labelled=False, reference=train).X.tolist() == [
        [7, 0, 0]
    ]


def test_zero_based_letor(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("1 qid:4 0:7 1:8\n")
    assert read_data(tmp_path / "a.txt", zero_based=True).X.tolist() == [[7, 8]]
    with pytest.raises(ValueError, match="zero_based"):
        read_data(tmp_path / "a.txt")


def test_parts_get_the_same_columns(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("1 qid:1 1:7\n0 qid:1 2:7\n")
    (tmp_path / "b.txt").write_text("1 qid:2 3:7\n")
    (tmp_path / "c.csv").write_text("b,a,label,qid\n1,2,0,1\n")
    (tmp_path / "d.csv").write_text("qid,a,b,label\n1,2,1,0\n")
    assert [part.X.shape for part in read_parts([tmp_path / "a.txt", tmp_path / "b.txt"])] == [
        (2, 3),
        (1, 3),
    ]
    assert [part.X.tolist() for part in read_parts([tmp_path / "c.csv", tmp_path / "d.csv"])] == [
        [[1, 2]],
        [[1, 2]],
    ]
    assert [part.X.tolist() for part in read_parts([tmp_path / "d.csv"])] == [[[2, 1]]]


def test_names_of_documents_do_not_depend_on_the_order_of_queries() -> None:
    rows = {"x": 1.0, "y": 2.0, "z": 3.0, "u": 4.0}

    def named(order: str, qid: list[Any]) -> dict[float, str]:
        data = RankingData([[rows[number]] for number in order], [0] * 4, qid=qid)
        return dict(zip(data.X[:, 0].tolist(), document_names(data), strict=True))

    expected = {1.0: "10-1", 2.0: "10-2", 3.0: "9-1", 4.0: "9-2"}
    assert named("xyzu", [10, 10, 9, 9]) == named("zxuy", [9, 10, 9, 10]) == expected


DAMAGED = {
    "cut.csv.gz": gzip.compress(b"label,qid,a\n" + b"0,1,2.5\n" * 1000)[:-20],
    "cut.txt.gz": gzip.compress(b"0 qid:1 1:2.5\n" * 1000)[:-20],
    "not.parquet": b"label,qid,a\n0,1,2\n",
    "not.arrow": b"label,qid,a\n0,1,2\n",
    "empty.arrow": b"",
    "empty.csv": b"",
    "ragged.csv": b"label,qid,a\n0,1,2\n0,1\n",
    "twice.csv": b"label,qid,a,a\n0,1,2,3\n",
    "text.csv": b"label,qid,a\n0,1,2\n" + b"0,1,3\n" * 300_000 + b"0,1,oops\n",
    "label.csv": b"label,qid,a\n-1,1,2\n",
    "head.csv": b"label,qid,a\n",
    "rows.txt": b"0 qid:1 one:2\n",
    "label.txt": b"-1 qid:1 1:2\n",
    "name.doc": b"",
    "name": b"",
    "name.parquet.gz": b"",
}


@pytest.mark.parametrize("name", DAMAGED)
def test_what_cannot_be_read_is_refused_with_the_file_in_one_line(
    tmp_path: Path, name: str
) -> None:
    (tmp_path / name).write_bytes(DAMAGED[name])
    with pytest.raises(ValueError, match=f"{name}") as refused:
        read_data(tmp_path / name)
    assert "\n" not in str(refused.value)


def test_a_missing_file(tmp_path: Path) -> None:
    for name in FORMATS:
        with pytest.raises(FileNotFoundError, match=name):
            read_data(tmp_path / name)


@pytest.mark.parametrize(
    ("ids", "names", "reason"),
    [([1, "1"], ["a"], "same once written as text"), ([1, 2], ["qid"], "a feature is named 'qid'")],
)
def test_what_a_table_cannot_hold(
    tmp_path: Path, ids: list[Any], names: list[str], reason: str
) -> None:
    data = RankingData([[1.0], [2.0]], [0, 1], qid=ids, feature_names=names)
    with pytest.raises(ValueError, match=reason):
        write_data(data, tmp_path / "a.csv")


def test_a_full_disk_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(table: Any, file: Any, *_: Any) -> None:
        file.write(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    (tmp_path / "a.csv").write_text("old")
    monkeypatch.setattr(pyarrow.csv, "write_csv", full)
    with pytest.raises(OSError, match="No space left"):
        write_data(RankingData(X, Y, qid=[1, 1, 1, 2, 2]), tmp_path / "a.csv")
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("a.csv", "old")]


def test_a_column_whose_name_is_not_utf8_names_the_file_and_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes("label,qid,é\n1,1,2\n".encode("latin-1"))
    with pytest.raises(
        ValueError, match=r"a\.csv: the name of a column is not UTF-8; save the file as UTF-8"
    ):
        read_data(tmp_path / "a.csv")


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.parquet", "a.arrow"])
def test_a_plain_table_is_written_by_its_extension(tmp_path: Path, name: str) -> None:
    columns = {"query": ["q", "q"], "position": [1, 2]}
    write_table(columns, tmp_path / name)
    content = (tmp_path / name).read_bytes()
    beginning = {"a.parquet": b"PAR1", "a.arrow": b"ARROW1"}.get(name, b'"query"')
    assert content.startswith(beginning)
    with pytest.raises(ValueError, match=r"the name must end in \.parquet, .* \.csv, \.tsv"):
        write_table(columns, tmp_path / "a.txt")


HEAD, ROWS = "qid,label,a,text\n", "".join(f"q{i // 5},{i % 3},{i},t\n" for i in range(20))


@pytest.mark.parametrize(("version", "threads"), [("22.0.0", False), ("23.0.0", True)])
def test_versions_of_arrow_that_never_end_after_an_invalid_file_read_without_threads(
    version: str, threads: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[bool] = []
    options = pyarrow.csv.ReadOptions

    def recorded(**given: Any) -> Any:
        asked.append(given["use_threads"])
        return options(**given)

    monkeypatch.setattr(pyarrow, "__version__", version)
    monkeypatch.setattr(pyarrow.csv, "ReadOptions", recorded)
    (tmp_path / "a.csv").write_text("label,qid,a\n1,1,2\n0,1,3\n")
    assert read_data(tmp_path / "a.csv").n_rows == 2
    assert asked == [threads]


@pytest.mark.parametrize("before", [0, 5000])  # rows, a few or more than one block of Arrow's
@pytest.mark.parametrize("after", [0, 1, 5000])
@pytest.mark.parametrize("field", ["a", "text"])
def test_a_quote_that_is_not_closed_leaves_out_no_row(
    tmp_path: Path, before: int, after: int, field: str
) -> None:
    open_row = 'q,1,"2,t\n' if field == "a" else 'q,1,2,"t\n'
    (tmp_path / "a.csv").write_text(HEAD + ROWS * before + open_row + ROWS * after)
    with pytest.raises(
        ValueError, match=r"a.csv.*(a quote \(\"\) that is not closed|Expected 4 columns, got)"
    ):
        read_data(tmp_path / "a.csv", drop=["text"])


def test_closed_quotes_may_hold_lines_and_commas(tmp_path: Path) -> None:
    row = 'q,1,2,"one, ""two""\nthree\n"\n'
    (tmp_path / "a.csv").write_text(HEAD + row * 60_000)  # some of them lie across two blocks
    data = read_data(tmp_path / "a.csv", fields=["text"])
    assert data.n_rows == 60_000
    assert set(data.fields["text"].tolist()) == {'one, "two"\nthree\n'}
    (tmp_path / "a.csv").write_text(HEAD + row[:-1])
    assert read_data(tmp_path / "a.csv", fields=["text"]).fields["text"].tolist() == [
        'one, "two"\nthree\n'
    ]


def test_a_row_that_is_too_long_says_where_and_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(HEAD + ROWS + "q,1,2," + "x" * 3_000_000 + "\n" + ROWS)
    with pytest.raises(
        ValueError, match=r"a.csv: line 22 is longer than 1048576 bytes.*write the table as Parq"
    ):
        read_data(tmp_path / "a.csv", drop=["text"])
    (tmp_path / "a.csv").write_text(
        "qid,label," + ",".join(f"f{i}" for i in range(200_000)) + "\n1,1\n"
    )
    with pytest.raises(ValueError, match="line 1 is longer than 1048576 bytes"):
        read_data(tmp_path / "a.csv")
