"""LETOR text: equal to scikit-learn bit by bit, to a slow parser line by line, and to itself."""

from __future__ import annotations

import gzip
import os
import random
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_svmlight_file

from rankwright.data.dataset import RankingData
from rankwright.data.formats import letor, letor_parser
from rankwright.data.formats.letor import read_letor, write_letor
from rankwright.data.formats.letor_parser import parse_letor

_NUMBER = re.compile(rb"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_NAN = re.compile(rb"[+-]?nan", re.IGNORECASE)


class BadLine(Exception):
    """Its argument is the number of the first line that is not LETOR text."""


def slow_parse(
    text: bytes, n_features: int = 2**31 - 2
) -> list[tuple[float, bytes, dict[int, float]]]:
    """Parse one-based LETOR text by regular expressions and float(): (label, id, features) per row."""
    rows = []
    for number, line in enumerate(text.split(b"\n"), start=1):
        words = line.split(b"#")[0].split()
        if not words:
            continue
        label = float(words[0]) if _NUMBER.fullmatch(words[0]) else -1.0
        if not 0 <= label < float("inf"):
            raise BadLine(number)
        if len(words) < 2 or not words[1].startswith(b"qid:") or words[1] == b"qid:":
            raise BadLine(number)
        features: dict[int, float] = {}
        for word in words[2:]:
            index, colon, value = word.partition(b":")
            if not (colon and re.fullmatch(rb"[0-9]+", index)):
                raise BadLine(number)
            if not (_NUMBER.fullmatch(value) or _NAN.fullmatch(value)):
                raise BadLine(number)
            if int(index) in features or not 1 <= int(index) <= n_features:
                raise BadLine(number)
            features[int(index)] = float(value)
            if np.isinf(features[int(index)]):
                raise BadLine(number)
        rows.append((label, words[1][4:], features))
    return rows


def threads(n: int) -> Any:
    """Pretend to have ``n`` processors, and that a few bytes are worth a thread."""
    return mock.patch.multiple(
        letor_parser, _BYTES_PER_THREAD=8, available_threads=lambda threads: n
    )


def bits(values: Any) -> Any:
    return np.ascontiguousarray(values, dtype=np.float64).view(np.int64)


def letor_lines(X: np.ndarray, form: str = "%r", density: float = 1.0) -> bytes:
    """Write rows with a chosen format of numbers, five rows to a query, without the package."""
    rng = random.Random(3)
    lines = []
    for row, values in enumerate(X.tolist()):
        given_ = [(j, v) for j, v in enumerate(values, start=1) if rng.random() < density]
        words = [f"{j}:" + form % v for j, v in given_]
        lines.append(" ".join([str(row % 5), f"qid:{row // 5}", *words]))
    return ("\n".join(lines) + "\n").encode()


# --- the same numbers as others ---------------------------------------------------------------------


@pytest.mark.parametrize("form", ["%r", "%.6g", "%d", "%.25e"])
@pytest.mark.parametrize("density", [1.0, 0.1])
def test_equals_scikit_learn_bit_by_bit(tmp_path: Path, form: str, density: float) -> None:
    rng = np.random.default_rng(1)
    X = rng.lognormal(sigma=5, size=(300, 40)) * rng.choice([-1, 1], size=(300, 40))
    path = tmp_path / "data.txt"
    path.write_bytes(letor_lines(X, form, density))
    theirs, labels, qid = load_svmlight_file(path, query_id=True, zero_based=False)
    for n in (1, 3):
        with threads(n):
            dense = parse_letor(path.read_bytes())
            sparse = parse_letor(path.read_bytes(), sparse=True)
        for X_, y_, qid_ in (dense, sparse):
            assert y_.tolist() == labels.tolist()
            assert qid_.tolist() == qid.tolist()
            assert qid_.dtype == np.int64
            assert X_.shape == theirs.shape
        # Adding 0 makes a zero positive, as scikit-learn's conversion to dense does.
        assert np.array_equal(bits(dense[0] + 0.0), bits(theirs.toarray()))
        assert np.array_equal(bits(sparse[0].data), bits(theirs.data))
        assert np.array_equal(sparse[0].indices, theirs.indices)
        assert np.array_equal(sparse[0].indptr, theirs.indptr)


def check_numbers(words: list[str]) -> None:
    text = "".join(f"0 qid:1 1:{word}\n" for word in words).encode()
    X, _, _ = parse_letor(text)
    expected = bits([float(word) for word in words])
    wrong = np.flatnonzero(bits(X[:, 0]) != expected)
    assert [words[i] for i in wrong[:5]] == []


def test_numbers_are_the_nearest_float64() -> None:
    rng = np.random.default_rng(2)
    doubles = rng.integers(0, 2**64, 50_000, dtype=np.uint64).view(np.float64)
    doubles = doubles[np.isfinite(doubles)].tolist()
    check_numbers([repr(v) for v in doubles])
    check_numbers([f"{v:.18e}" for v in doubles[:5000]])
    integers = [int(n) for n in rng.integers(0, 2**63, 20_000)]
    check_numbers([f"{n}e{n % 620 - 340}" for n in integers if n % 620 < 600])


def test_ties_go_to_the_even_float64() -> None:
    rng = random.Random(4)
    ties = [2 * rng.randrange(2**52, 2**53) + 1 for _ in range(3000)]  # 54 bits, the last one set
    words = []
    for n in ties:
        words += [
            f"{n}",
            f"{n}e0",
            f"{n}.000000000000000000000001",
            f"{n - 1}.99999999999999999999",
        ]
        words += [f"{n * 5**k}e-{k}" for k in range(1, 5)]
        words += [f"{n * 2**k}.{'0' * 30}" for k in range(1, 9)]
    check_numbers(words)


def test_numbers_at_the_edges_of_float64() -> None:
    zeros = "0" * 400
    check_numbers(["0", "-0", "+0.0", "0e999", ".5", "5.", "1E+5", "-1e-7", "nan", "NaN", "-nan"])
    check_numbers(["1e-400", "5e-324", "2.4703282292062327e-324", "2.4703282292062328e-324"])
    check_numbers(["9999999999999999999e-342", "9999999999999999999e-343", "4e-324", "2e-324"])
    check_numbers(["2.2250738585072011e-308", "1.7976931348623157e308", "1e22", "1e23"])
    check_numbers(["0.99999999999999999", "9.9999999999999999e22", "18014398509481983.9"])
    check_numbers(["9007199254740993", f"9007199254740993.{zeros}1", "179769313486231580793e288"])
    check_numbers([f"0.{zeros}1", f"0.{zeros}1e400", f"1{zeros}e-400", "1" * 400 + "e-399"])
    check_numbers([f"1e{zeros}1", f"1e-{zeros}1", "1" + "0" * 308])


def test_more_undecided_numbers_than_fit_at_a_time() -> None:
    words = [f"{n}e-324" for n in range(5000)]  # all subnormal, left to Python
    check_numbers(words)
    text = b"1e-320 qid:1 1:3e-320\n2 qid:1 1:1e-310\n" * 2000
    X, y, _ = parse_letor(text, sparse=True)
    assert X.data.tolist() == [3e-320, 1e-310] * 2000
    assert y.tolist() == [1e-320, 2.0] * 2000


# --- any text: refused at the right line, or read as the slow parser reads it --------------------------

_VALUES = st.one_of(
    st.floats(allow_infinity=False).map(repr),
    st.integers(-(10**25), 10**25).map(str),
    st.sampled_from(["nan", "-NaN", "1e400", "-inf", "Infinity", ".", "1e", "0x1", "1_0", "٣"]),
)
_ROWS = st.builds(
    lambda label, qid, features, end: " ".join([label, f"qid:{qid}", *features]) + end,
    st.sampled_from(["0", "2", "1.5", "3e0"]),
    st.sampled_from(["1", "2", "-7", "a", "x:y", "99999999999999999999"]),
    st.lists(
        st.builds(lambda j, v: f"{j}:{v}", st.integers(1, 60), _VALUES),
        max_size=5,
        unique_by=lambda word: word.split(":")[0],
    ),
    st.sampled_from(["", "\r", " # 1:2", "\t\t", "#"]),
)
_LINES = st.one_of(_ROWS, _ROWS, _ROWS, st.sampled_from(["", "# all comment", "  ", "\r"]))
_BYTES = st.sampled_from(
    [bytes([c]) for c in b" \t\r\n\v#:.-+eE0123456789nqidaf_\x00\x1c\xff"] + [b""]
)
_EDITS = st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 1), _BYTES), max_size=3)


@settings(max_examples=400, deadline=None)
@example(["0 qid:9999999999999 9999999:1"], [], 1)  # a feature far beyond the entries
@given(st.lists(_LINES, min_size=1, max_size=8), _EDITS, st.sampled_from([1, 4]))
def test_any_text_is_refused_at_its_line_or_read(
    lines: list[str], edits: list[tuple[int, int, bytes]], n_threads: int
) -> None:
    text = "\n".join(lines).encode()
    for place, removed, inserted in edits:
        place %= len(text) + 1
        text = text[:place] + inserted + text[place + removed :]
    for sparse, n_features in ((False, 50), (True, None)):
        with threads(n_threads):
            try:
                rows = slow_parse(text, n_features or 2**31 - 2)
            except BadLine as bad:
                with pytest.raises(ValueError, match=rf"^text, line {bad.args[0]}: expected "):
                    parse_letor(text, n_features=n_features, sparse=sparse)
                continue
            if not rows:
                with pytest.raises(ValueError, match="text has no rows"):
                    parse_letor(text, n_features=n_features, sparse=sparse)
                continue
            try:
                ids = [qid.decode() for _, qid, _ in rows]
            except UnicodeDecodeError:
                with pytest.raises(ValueError, match=r"line \d+: expected a query id in UTF-8"):
                    parse_letor(text, n_features=n_features, sparse=sparse)
                continue
            width, entries = (
                max(max(f, default=0) for _, _, f in rows),
                sum(len(f) for _, _, f in rows),
            )
            if n_features is None and width > max(2**20, 200 * entries):
                with pytest.raises(
                    ValueError,
                    match=f"makes {width} features, but there are only {entries} entries",
                ):
                    parse_letor(text, n_features=n_features, sparse=sparse)
                continue
            X, y, qid = parse_letor(text, n_features=n_features, sparse=sparse)
        assert y.tolist() == [label for label, _, _ in rows]
        is_int64 = [re.fullmatch("[+-]?[0-9]{1,19}", v) and abs(int(v)) < 2**63 for v in ids]
        assert qid.tolist() == ([int(v) for v in ids] if all(is_int64) else ids)
        for row, (_, _, features) in enumerate(rows):
            if sparse:
                entries = slice(X.indptr[row], X.indptr[row + 1])
                entry = dict(zip((X.indices[entries] + 1).tolist(), X.data[entries], strict=True))
                assert entry.keys() == features.keys()
                assert [*map(repr, map(float, entry.values()))] == [
                    repr(features[j]) for j in entry
                ]
            else:
                expected = [features.get(j, 0.0) for j in range(1, 51)]
                assert [*map(repr, X[row].tolist())] == [*map(repr, expected)]


# --- the format -------------------------------------------------------------------------------------


def test_blanks_comments_and_line_ends() -> None:
    text = (
        b"# a comment: 9:9\n\n2 qid:1 1:5 2:-2.5e-1 # doc 7:7\r\n"
        b"\t0\tqid:1 \t 3:+4 \r\n   \n1.5 qid:2#tight\n  # x\n3 qid:2 3:1 1:2"
    )
    X, y, qid = parse_letor(text)
    assert X.tolist() == [[5, -0.25, 0], [0, 0, 4], [0, 0, 0], [2, 0, 1]]
    assert y.tolist() == [2, 0, 1.5, 3]
    assert qid.tolist() == [1, 1, 2, 2]
    assert qid.dtype == np.int64
    sparse = parse_letor(text, sparse=True)[0]
    assert np.array_equal(sparse.toarray(), X)
    assert sparse.indices.tolist() == [0, 1, 2, 0, 2]  # ascending in each row


def test_rows_are_grouped_by_query(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("1 qid:9 1:1\n2 qid:3 1:2\n0 qid:9 1:3\n")
    data = read_letor(str(path))
    assert data.qid.tolist() == [3, 9, 9]
    assert data.X.tolist() == [[2], [1], [3]]
    assert data.y.tolist() == [2, 1, 0]


def test_query_ids_are_int64_only_if_all_are() -> None:
    def ids(*words: str) -> list[Any]:
        text = "".join(f"0 qid:{word} 1:1\n" for word in words).encode()
        return list(parse_letor(text)[2].tolist())

    assert ids("007", "-3", "9223372036854775807") == [7, -3, 2**63 - 1]
    assert ids("1", "9223372036854775808") == ["1", "9223372036854775808"]
    assert ids("1", "ü:1") == ["1", "ü:1"]
    assert ids("1.0", "-") == ["1.0", "-"]


def test_files_share_one_number_of_features(tmp_path: Path) -> None:
    paths = [tmp_path / "train.txt", tmp_path / "valid.txt", tmp_path / "test.txt"]
    for path, features in zip(paths, ["2:1", "1:7 4:2", ""], strict=True):
        path.write_text(f"1 qid:1 {features}\n")
    for sparse in (False, True):
        data = read_letor(paths, sparse=sparse)
        X = [d.X.toarray() if sparse else d.X for d in data]
        assert [x.tolist() for x in X] == [[[0, 1, 0, 0]], [[7, 0, 0, 2]], [[0, 0, 0, 0]]]
        assert sp.issparse(data[0].X) is sparse
    assert isinstance(read_letor(paths[:1]), list)
    assert read_letor(paths[0], n_features=6).X.shape == (1, 6)
    assert read_letor(paths[1], zero_based=True).X.tolist() == [[0, 7, 0, 0, 2]]
    with pytest.raises(ValueError, match=r"test\.txt: no row has a feature.*pass n_features"):
        read_letor(paths[2])
    with pytest.raises(ValueError, match="no file to read"):
        read_letor([])


def test_more_features_after_the_first_lines() -> None:
    text = b"0 qid:1 1:1\n" * 20_000 + b"1 qid:2 3:5 # beyond what the head of the file shows\n"
    X, _, _ = parse_letor(text)
    assert X.shape == (20_001, 3)
    assert X[-1].tolist() == [0, 0, 5]
    assert X.sum() == 20_000 + 5


def test_float32_is_the_float64_rounded() -> None:
    X, y, _ = parse_letor(b"1 qid:1 1:0.1 2:16777217 3:1e-320\n", dtype=np.float32)
    assert X.dtype == np.float32
    assert y.dtype == np.float64
    assert X.tolist() == [[float(np.float32(0.1)), 2.0**24, 0.0]]
    with pytest.raises(ValueError, match=r"line 1: expected a finite float32.*1:1e39"):
        parse_letor(b"1 qid:1 1:1e39\n", dtype=np.float32)
    with pytest.raises(ValueError, match="dtype must be float64 or float32, got int64"):
        parse_letor(b"1 qid:1 1:1\n", dtype=np.int64)


def test_both_types_in_turn() -> None:
    """Numba 0.60 now and then takes the code of the other type."""
    for n in range(1, 200):
        for dtype in (np.float64, np.float32):
            X, _, _ = parse_letor(b"1 qid:1 1:0.1\n" * n, dtype=dtype)
            assert X.dtype == dtype
            assert X.tolist() == [[float(dtype(0.1))]] * n


def test_any_number_of_threads_gives_the_same() -> None:
    text = letor_lines(np.random.default_rng(0).normal(size=(200, 7)), density=0.7)
    text += b"# 1:2\n\n0 qid:word 1:1e-310\n"
    with threads(1):
        one = [parse_letor(text), parse_letor(text, sparse=True)]
    for n in (2, 7, 50):
        with threads(n):
            several = [parse_letor(text), parse_letor(text, sparse=True)]
        for (X, y, qid), (X_, y_, qid_) in zip(one, several, strict=True):
            assert (X != X_).sum() == 0
            assert y.tolist() == y_.tolist()
            assert qid.tolist() == qid_.tolist()


# --- refusals ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("x qid:1 1:1", "expected a label, a finite non-negative number"),
        ("-1 qid:1 1:1", "expected a label"),
        ("nan qid:1 1:1", "expected a label"),
        ("1e999 qid:1 1:1", "expected a label"),
        ("1", "expected qid:ID after the label"),
        ("1 1:1", "expected qid:ID after the label"),
        ("1 qid: 1:1", "expected qid:ID after the label"),
        ("1 qid:1 1", "expected index:value"),
        ("1 qid:1 -1:1", "expected index:value"),
        ("1 qid:1 a:1", "expected index:value"),
        ("1 qid:1 1 :1", "expected index:value"),
        ("1 qid:1 1:", "expected a number after the colon"),
        ("1 qid:1 1:1:2", "expected a number after the colon"),
        ("1 qid:1 1:1e", "expected a number after the colon"),
        ("1 qid:1 1:nano", "expected a number after the colon"),
        ("1 qid:1 1:-inf", "expected a finite float64, or nan"),
        ("1 qid:1 1:1e309", "expected a finite float64, or nan"),
        ("1 qid:1 1:" + str((2**54 - 1) * 2**970), "expected a finite float64, or nan"),
        ("1 qid:1 0:1", "expected indices from 1"),
        ("1 qid:1 2147483647:1", "expected indices up to 2147483646"),
        ("1 qid:1 99999999999999999999:1", "expected indices up to 2147483646"),
        ("1 qid:1 3:1 5:2 3:4", "expected each index once per row"),
        ("1 qid:1 3:1 3:1", "expected each index once per row"),
        (b"1 qid:\xff 1:1", "expected a query id in UTF-8"),
    ],
)
def test_bad_lines_are_named(tmp_path: Path, line: str | bytes, message: str) -> None:
    line = line if isinstance(line, bytes) else line.encode()
    path = tmp_path / "bad.txt"
    path.write_bytes(b"# head\n1 qid:1 1:1 2:2\n" + line + b"\n1 qid:1 1:1\n")
    shown = re.escape(line.decode(errors="replace")[:20])
    for sparse in (False, True):
        with pytest.raises(ValueError, match=rf"bad\.txt, line 3: {message}.*'{shown}"):
            read_letor(path, sparse=sparse)


def test_long_lines_are_shortened_around_the_fault() -> None:
    words = [f"{j}:0.5" for j in range(1, 200)]
    words[150] = "151:oops"
    with pytest.raises(ValueError, match=r"reads '\.\.\.[^']* 151:oops [^']*\.\.\.'\.$") as caught:
        parse_letor(" ".join(["1 qid:1", *words]).encode())
    assert len(str(caught.value)) < 150


def test_index_beyond_the_asked_number_of_features() -> None:
    with pytest.raises(ValueError, match="line 2: expected indices up to 3; fix the file or n_fea"):
        parse_letor(b"1 qid:1 3:1\n1 qid:1 4:1\n", n_features=3)
    with pytest.raises(ValueError, match="line 1: expected indices up to 2;"):
        parse_letor(b"1 qid:1 3:1\n", n_features=3, zero_based=True)
    with pytest.raises(ValueError, match="n_features must be from 1"):
        parse_letor(b"1 qid:1 3:1\n", n_features=0)


def test_dense_matrix_too_large_for_memory() -> None:
    text = b"1 qid:1 2000000000:1\n" * 100_000
    with pytest.raises(
        ValueError, match=r"does not fit into memory\. Check .*, or read it with .*sparse=True"
    ):
        parse_letor(text, n_features=2_000_000_000)
    assert parse_letor(text, sparse=True, n_features=2_000_000_000)[0].shape == (
        100_000,
        2_000_000_000,
    )


@pytest.mark.parametrize("content", [b"", b"\n\n", b"# only\n#comments", b" \r\n"])
def test_files_without_rows(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "empty.txt"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"empty\.txt has no rows; expected lines"):
        read_letor(path)


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"absent\.txt"):
        read_letor(tmp_path / "absent.txt")


def test_gzip_is_known_by_its_content(tmp_path: Path) -> None:
    path = tmp_path / "no-suffix"
    packed = gzip.compress(b"1 qid:1 1:2\n") + gzip.compress(b"0 qid:1 1:3\n")
    path.write_bytes(packed)
    assert read_letor(path).X.tolist() == [[2], [3]]
    for damaged in (packed[:-9], packed[:15], packed[:12] + b"\xff\xff\xff" + packed[15:]):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match="no-suffix: the gzip data is damaged or cut off"):
            read_letor(path)


# --- writing ----------------------------------------------------------------------------------------


def sample(sparse: bool = False) -> RankingData:
    rng = np.random.default_rng(6)
    X = rng.lognormal(sigma=40, size=(30, 6)) * rng.choice([-1, 1, 0], size=(30, 6))
    X[:, 5] = np.arange(30)
    X[3, 2] = np.nan
    X[4, 3] = -0.0
    return RankingData(sp.csr_matrix(X) if sparse else X, rng.random(30), qid=np.arange(30) // 4)


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz"])
@pytest.mark.parametrize("zero_based", [False, True])
@pytest.mark.parametrize("write_sparse", [False, True, None])
@pytest.mark.parametrize("sparse", [False, True])
def test_what_was_written_reads_back_bit_by_bit(
    tmp_path: Path, name: str, zero_based: bool, write_sparse: bool | None, sparse: bool
) -> None:
    data = sample(sparse)
    write_letor(data, tmp_path / name, zero_based=zero_based, sparse=write_sparse)
    back = read_letor(tmp_path / name, zero_based=zero_based)
    X = data.X.toarray() if sparse else data.X
    assert np.array_equal(bits(back.X), bits(X))
    assert np.array_equal(bits(back.y), bits(data.y))
    assert back.qid.tolist() == data.qid.tolist()
    assert os.listdir(tmp_path) == [name]


def test_float32_reads_back_in_both_types(tmp_path: Path) -> None:
    X = np.array([[0.1, 3.0], [1e-40, 7.25]], dtype=np.float32)
    write_letor(RankingData(X, [0, 1], qid=["a", "b"]), tmp_path / "a.txt")
    assert np.array_equal(read_letor(tmp_path / "a.txt", dtype=np.float32).X, X)
    assert np.array_equal(read_letor(tmp_path / "a.txt").X, X.astype(np.float64))


def test_text_written(tmp_path: Path) -> None:
    data = RankingData([[0.0, 0.1], [2.0, 0.0]], [1, 0.5], qid=["b", "a"])
    write_letor(data, tmp_path / "a.txt")
    assert (tmp_path / "a.txt").read_text() == "0.5 qid:a 1:2 2:0\n1 qid:b 1:0 2:0.1\n"
    write_letor(data, tmp_path / "a.txt", sparse=True, zero_based=True)
    assert (tmp_path / "a.txt").read_text() == "0.5 qid:a 0:2\n1 qid:b 1:0.1\n"


def test_gzip_has_the_same_bytes_each_time(tmp_path: Path) -> None:
    write_letor(sample(), tmp_path / "a.gz")
    with mock.patch("time.time", return_value=2e9):
        write_letor(sample(), tmp_path / "b.gz")
    assert (tmp_path / "a.gz").read_bytes() == (tmp_path / "b.gz").read_bytes()


def test_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")
    full = mock.patch.object(letor, "_digits", side_effect=OSError("disk full"))
    with full, pytest.raises(OSError, match="disk full"):
        write_letor(sample(), path)
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["a.txt"]


@pytest.mark.parametrize("qid", ["two words", "a#b", "", "tab\t"])
def test_query_ids_that_cannot_be_written(tmp_path: Path, qid: str) -> None:
    data = RankingData([[1.0]], [0], qid=[qid])
    with pytest.raises(ValueError, match=f"query id {re.escape(repr(qid))} cannot be written"):
        write_letor(data, tmp_path / "a.txt")
    assert os.listdir(tmp_path) == []


def test_query_ids_that_would_merge(tmp_path: Path) -> None:
    for ids in (["7", "007"], [7, "7"]):
        data = RankingData([[1.0], [2.0]], [0, 1], qid=ids)
        with pytest.raises(ValueError, match="two query ids are the same once written"):
            write_letor(data, tmp_path / "a.txt")
    write_letor(RankingData([[1.0], [2.0]], [0, 1], qid=["007", "x"]), tmp_path / "a.txt")
    assert read_letor(tmp_path / "a.txt").query_ids.tolist() == ["007", "x"]


def test_weights_are_not_dropped_in_silence(tmp_path: Path) -> None:
    data = RankingData([[1.0]], [0], qid=[1], sample_weight=[2.0])
    with pytest.raises(ValueError, match=r"cannot hold weights.*Write Parquet or CSV"):
        write_letor(data, tmp_path / "a.txt")


# --- memory -----------------------------------------------------------------------------------------

_MEASURE = """
import re, sys
from rankwright.data.formats.letor import read_letor
from rankwright.data.formats.letor_parser import parse_letor

def peak(what):
    with open("/proc/self/status") as status:
        return 1024 * int(re.search(what + r":\\s+(\\d+) kB", status.read()).group(1))

parse_letor(b"1 qid:1 1:2\\n")
with open("/proc/self/clear_refs", "w") as file:
    file.write("5")  # the peak starts again from what is in use now
before = peak("VmRSS")
data = read_letor(sys.argv[1])
assert data.X.shape == (20000, 136)
print(peak("VmHWM") - before)
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/clear_refs"), reason="needs Linux's /proc")
@pytest.mark.parametrize("packed", [False, True])
def test_memory_is_the_file_and_two_matrices_at_most(tmp_path: Path, packed: bool) -> None:
    rng = np.random.default_rng(0)
    rows = [
        " ".join(f"{j}:{v:.6g}" for j, v in enumerate(values, start=1))
        for values in rng.lognormal(sigma=3, size=(100, 136)).tolist()
    ]
    # Queries in descending order make RankingData sort the rows, which takes the second matrix.
    text = "".join(f"1 qid:{20_000 - n} {rows[n % 100]}\n" for n in range(20_000)).encode()
    path = tmp_path / "data"
    path.write_bytes(gzip.compress(text, compresslevel=1) if packed else text)
    parse_letor(b"1 qid:1 1:2\n")  # the child finds the compiled kernels
    run = subprocess.run(
        [sys.executable, "-c", _MEASURE, str(path)], capture_output=True, text=True, check=True
    )
    matrix = 20_000 * 136 * 8
    assert matrix < int(run.stdout) <= len(text) + 2 * matrix


def test_a_file_that_another_one_widens_too_much_is_refused(tmp_path: Path) -> None:
    (tmp_path / "narrow").write_text(
        "".join(f"{row % 2} qid:{row // 10} 1:{row}\n" for row in range(3000))
    )
    (tmp_path / "wide").write_text("1 qid:1 20000:1\n0 qid:1 1:1\n")
    files = [tmp_path / "narrow", tmp_path / "wide"]
    with pytest.raises(
        ValueError, match=r"narrow: the largest index makes 20000 features, but there are only 3000"
    ):
        read_letor(files)
    assert [data.X.shape for data in read_letor(files, sparse=True)] == [(3000, 20000), (2, 20000)]


def test_pairs_are_not_lost_in_letor_text(tmp_path: Path) -> None:
    data = RankingData([[1.0], [2.0]], [0, 1], qid=[1, 1], pairs=[(1, 0)])
    with pytest.raises(ValueError, match="this data has pairs; write Parquet or CSV"):
        write_letor(data, tmp_path / "a.txt")
    assert list(tmp_path.iterdir()) == []
