"""Folds: which queries are in which part, for each known layout."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from rankwright import RankingData, make_web_search, write_letor
from rankwright.data.on_disk import is_on_disk
from rankwright.data.reading import write_data
from rankwright_lab.corruption import with_added_negatives
from rankwright_lab.folds import Fold, count_folds, fold_files, folds_by_query, read_folds

DATA = make_web_search(20, kind="short", n_features=20, mean_length=10, random_state=1)
PARTS = [DATA.subset(range(4 * part, 4 * part + 4)) for part in range(5)]


def ids(data: RankingData) -> set[int]:
    return {int(query) for query in data.query_ids}


def check_parts_are_apart(fold: Fold) -> None:
    train, valid, test = ids(fold.train), ids(fold.valid), ids(fold.test)
    assert len(train | valid | test) == len(train) + len(valid) + len(test)


@pytest.mark.parametrize("k", [3, 5, 7])
def test_each_query_is_tested_and_validates_once(k: int) -> None:
    folds = list(folds_by_query(DATA, k, seed=2))
    assert [fold.name for fold in folds] == [str(number) for number in range(1, k + 1)]
    for fold in folds:
        check_parts_are_apart(fold)
        assert ids(fold.train) | ids(fold.valid) | ids(fold.test) == ids(DATA)
    for part in ("valid", "test"):
        seen = [query for fold in folds for query in ids(getattr(fold, part))]
        assert sorted(seen) == sorted(ids(DATA))
        sizes = [getattr(fold, part).n_queries for fold in folds]
        assert max(sizes) - min(sizes) <= 1


def test_the_seed_decides_which_queries_are_together() -> None:
    def tested(seed: int) -> list[set[int]]:
        return [ids(fold.test) for fold in folds_by_query(DATA, 5, seed=seed)]

    assert tested(0) == tested(0)
    assert tested(0) != tested(1)


@pytest.mark.parametrize("k", [2, 21])
def test_an_impossible_number_of_folds(k: int) -> None:
    with pytest.raises(ValueError, match=rf"k={k} folds of 20 queries; k must be from 3"):
        next(folds_by_query(DATA, k))


@pytest.mark.parametrize("ending", [".txt", ".txt.gz"])
def test_five_parts(tmp_path: Path, ending: str) -> None:
    for number, part in enumerate(PARTS, start=1):
        write_letor(part, tmp_path / f"S{number}{ending}")
    folds = list(read_folds(tmp_path))
    assert [fold.name for fold in folds] == ["1", "2", "3", "4", "5"]
    assert count_folds(tmp_path) == 5
    for f, fold in enumerate(folds):
        train = set().union(*(ids(PARTS[(f + i) % 5]) for i in range(3)))
        assert (ids(fold.train), ids(fold.valid), ids(fold.test)) == (
            train,
            ids(PARTS[(f + 3) % 5]),
            ids(PARTS[(f + 4) % 5]),
        )


def test_numbered_folders_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    for number in (10, 9):
        folder = tmp_path / f"Fold{number}"
        folder.mkdir()
        for name, part in zip(("train", "vali", "test"), PARTS, strict=False):
            write_letor(part, folder / f"{name}.txt")
    (tmp_path / "Folders.txt").write_text("not a fold")
    folds = list(read_folds(tmp_path))
    assert [fold.name for fold in folds] == ["9", "10"]
    assert count_folds(tmp_path) == 2
    assert [ids(part) for part in (folds[0].train, folds[0].valid, folds[0].test)] == [
        ids(part) for part in PARTS[:3]
    ]


@pytest.mark.parametrize(
    "names", [("train", "vali", "test"), ("set1.train", "set1.valid", "set1.test")]
)
def test_one_split(tmp_path: Path, names: tuple[str, ...]) -> None:
    for name, part in zip(names, PARTS, strict=False):
        write_letor(part, tmp_path / f"{name}.txt")
    (fold,) = read_folds(tmp_path)
    assert count_folds(tmp_path) == 1
    assert (ids(fold.train), ids(fold.valid), ids(fold.test)) == tuple(
        ids(part) for part in PARTS[:3]
    )


def test_a_fifth_validates_without_a_validation_file(tmp_path: Path) -> None:
    write_letor(RankingData.concatenate(PARTS[:4]), tmp_path / "train.txt")
    write_letor(PARTS[4], tmp_path / "test.txt")
    (fold,) = read_folds(tmp_path)
    check_parts_are_apart(fold)
    assert ids(fold.train) | ids(fold.valid) == set().union(*map(ids, PARTS[:4]))
    assert (fold.valid.n_queries, ids(fold.test)) == (round(16 / 5), ids(PARTS[4]))


@pytest.mark.parametrize("name", ["all.txt", "all.csv", "all.parquet"])
def test_one_file_is_split_by_query(tmp_path: Path, name: str) -> None:
    write_data(DATA, tmp_path / name)
    read = list(read_folds(tmp_path / name, k=4, seed=3))
    expected = list(folds_by_query(DATA, 4, seed=3))
    assert [ids(fold.test) for fold in read] == [ids(fold.test) for fold in expected]


def test_columns_agree_where_the_last_features_are_zero_in_a_part(tmp_path: Path) -> None:
    for number in range(1, 6):
        text = f"1 qid:{number} 1:0.5\n0 qid:{number} {number}:0.25\n"
        (tmp_path / f"S{number}.txt.gz").write_bytes(gzip.compress(text.encode()))
    assert {
        part.X.shape[1]
        for fold in read_folds(tmp_path)
        for part in (fold.train, fold.valid, fold.test)
    } == {5}


def test_folds_are_mapped_from_files(tmp_path: Path) -> None:
    """The features of a data set that is larger than memory stay in a file, in every part of a fold."""
    for name, part in zip(("train", "test"), PARTS, strict=False):
        write_letor(part, tmp_path / f"{name}.txt")
    for number, part in enumerate(PARTS, start=1):
        write_letor(part, tmp_path / f"S{number}.txt")
    folds = [next(read_folds(tmp_path))]
    for path in tmp_path.glob("S*"):
        path.unlink()
    folds += read_folds(tmp_path)
    for fold in folds:
        for part in (fold.train, fold.valid, fold.test, with_added_negatives(fold.test, 0.5)):
            assert is_on_disk(part.X)
    np.testing.assert_array_equal(folds[1].test.X, PARTS[1].X)


def test_paths_without_data(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"no known layout of folds; expected S1\.txt to S5\.txt"):
        read_folds(tmp_path)
    with pytest.raises(ValueError, match="neither a file nor a folder"):
        read_folds(tmp_path / "absent")
    (tmp_path / "few.txt").write_text("1 qid:1 1:1\n0 qid:2 1:1\n")
    with pytest.raises(ValueError, match=r"few\.txt has 2 queries; 5 folds need at least 5"):
        read_folds(tmp_path / "few.txt")


def test_sets_by_name(tmp_path: Path) -> None:
    for prefix, queries in (("set1", 1), ("set2", 2)):
        for part in ("train", "valid", "test"):
            text = "".join(f"1 qid:{prefix}{part}{q} 1:0.5\n" for q in range(queries))
            (tmp_path / f"{prefix}.{part}.txt").write_text(text)
    for name, queries in (("", 1), ("set1", 1), ("set2", 2)):
        (fold,) = read_folds(tmp_path / name)
        assert [part.n_queries for part in (fold.train, fold.valid, fold.test)] == [queries] * 3
    assert [path.name for path in fold_files(tmp_path / "set2")] == [
        "set2.train.txt", "set2.valid.txt", "set2.test.txt"
    ]  # fmt: skip
    for path in fold_files(tmp_path / "set1"):
        path.unlink()
    (fold,) = read_folds(tmp_path)
    assert fold.train.n_queries == 2
    with pytest.raises(ValueError, match="neither a file nor a folder"):
        read_folds(tmp_path / "set1")
