"""TREC files: read, written, refused by line, and joined as trec_eval joins them."""

from __future__ import annotations

import gzip
import math
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import pytrec_eval

from rankwright.data.trec import (
    Qrels,
    TrecRun,
    align,
    read_qrels,
    read_trec_run,
    write_qrels,
    write_trec_run,
)


def save(folder: Path, text: str | bytes, name: str = "file") -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_qrels_are_read_in_order(tmp_path: Path) -> None:
    qrels = read_qrels(save(tmp_path, "q2 0 d1 2\r\n\nq1\t0  d1 -1\nq2 0 ü 0"))
    assert qrels.qid.tolist() == ["q2", "q1", "q2"]
    assert qrels.docno.tolist() == ["d1", "d1", "ü"]
    assert qrels.label.tolist() == [2, -1, 0]
    assert qrels.label.dtype == np.int64


def test_run_is_read_in_order_and_rank_is_not_used(tmp_path: Path) -> None:
    run = read_trec_run(save(tmp_path, "7 Q0 a 9 1.5 mine\n7 Q0 b 1 -2e3 mine\n"))
    assert run.qid.tolist() == ["7", "7"]
    assert run.docno.tolist() == ["a", "b"]
    assert run.score.tolist() == [1.5, -2000.0]
    assert run.tag == "mine"


@pytest.mark.parametrize("name", ["plain.txt", "packed.gz"])
def test_round_trip(tmp_path: Path, name: str) -> None:
    rng = np.random.default_rng(0)
    qids = [f"q{n % 4}" for n in range(40)]
    docnos = [f"doc-{n}" for n in range(40)]
    write_qrels(Qrels(qids, docnos, rng.integers(-1, 4, 40)), tmp_path / name)
    qrels = read_qrels(tmp_path / name)
    assert qrels.qid.tolist() == qids
    assert qrels.docno.tolist() == docnos
    assert qrels.label.tolist() == np.random.default_rng(0).integers(-1, 4, 40).tolist()

    scores = rng.normal(size=40)
    write_trec_run(TrecRun(qids, docnos, scores, "tag"), tmp_path / name)
    run = read_trec_run(tmp_path / name)
    expected = {(q, d): s for q, d, s in zip(qids, docnos, scores.tolist(), strict=True)}
    scores = zip(zip(run.qid, run.docno, strict=True), run.score.tolist(), strict=True)
    assert dict(scores) == expected
    assert os.listdir(tmp_path) == [name]
    assert ((tmp_path / name).read_bytes()[:2] == b"\x1f\x8b") == name.endswith(".gz")


def test_run_is_written_best_first_with_ties_in_order(tmp_path: Path) -> None:
    run = TrecRun([2, 1, 2, 2], ["a", "b", "c", "d"], [1, 0.1, 3, 1], "t")
    write_trec_run(run, tmp_path / "run")
    assert (tmp_path / "run").read_text().splitlines() == [
        "2 Q0 c 1 3.0 t",
        "2 Q0 a 2 1.0 t",
        "2 Q0 d 3 1.0 t",
        "1 Q0 b 1 0.1 t",
    ]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("q1 0 d9", "expected 'qid 0 docno label', got 'q1 0 d9'"),
        ("q1 0 d9 1 x", "expected 'qid 0 docno label'"),
        ("q1 0 d9 1.5", "expected a whole number as the label, got '1.5'"),
        ("q1 0 d9 " + "9" * 30, "expected a whole number as the label"),
        ("q1 0 d1 1", "document 'd1' of query 'q1' is already on line 1"),
        (b"q1 0 \xff 1", "expected text in UTF-8"),
    ],
)
def test_bad_qrels_lines_are_named(tmp_path: Path, line: str | bytes, message: str) -> None:
    text = b"q1 0 d1 1\n\n" + (line if isinstance(line, bytes) else line.encode()) + b"\n"
    with pytest.raises(ValueError, match=f"file, line 3: {message}"):
        read_qrels(save(tmp_path, text))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("q1 Q0 d9 1 0.5", "expected 'qid Q0 docno rank score tag'"),
        ("q1 Q0 d9 1 high t", "expected a finite number as the score, got 'high'"),
        ("q1 Q0 d9 1 nan t", "expected a finite number as the score, got 'nan'"),
        ("q1 Q0 d9 1 1e999 t", "expected a finite number as the score"),
        ("q1 Q0 d1 1 0.5 t", "document 'd1' of query 'q1' is already on line 1"),
        ("q1 Q0 d9 1 0.5 u", "expected the tag 't' of the lines before, got 'u'"),
        ("q" * 100, r"got 'q{60}\.\.\.'"),
    ],
)
def test_bad_run_lines_are_named(tmp_path: Path, line: str, message: str) -> None:
    with pytest.raises(ValueError, match=f"file, line 2: .*{message}"):
        read_trec_run(save(tmp_path, f"q1 Q0 d1 1 0.5 t\n{line}\n"))


def test_files_without_lines_and_damaged_files(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="file is empty; expected lines of the form 'qid 0"):
        read_qrels(save(tmp_path, "\n"))
    with pytest.raises(ValueError, match="file is empty; expected lines of the form 'qid Q0"):
        read_trec_run(save(tmp_path, ""))
    with pytest.raises(ValueError, match="damaged or cut off"):
        read_qrels(save(tmp_path, gzip.compress(b"q1 0 d1 1\n")[:-3]))
    with pytest.raises(FileNotFoundError, match="absent"):
        read_qrels(tmp_path / "absent")


@pytest.mark.parametrize("word", ["two words", "", " x"])
def test_words_that_trec_files_cannot_hold(word: str) -> None:
    with pytest.raises(ValueError, match=r"query id .* is empty or contains whitespace"):
        Qrels([word], ["d"], [1])
    with pytest.raises(ValueError, match=r"document id .* is empty or contains whitespace"):
        Qrels(["q"], [word], [1])
    with pytest.raises(ValueError, match=r"tag .* is empty or contains whitespace"):
        TrecRun(["q"], ["d"], [1], word)


def test_records_are_checked() -> None:
    with pytest.raises(ValueError, match=r"must have the same length; got 1, 2 and 1"):
        Qrels(["q"], ["d", "e"], [1])
    with pytest.raises(ValueError, match="occurs twice"):
        TrecRun(["q", "q"], ["d", "d"], [1, 2], "t")
    with pytest.raises(ValueError, match="must be whole numbers; got float64"):
        Qrels(["q"], ["d"], [0.5])
    with pytest.raises(ValueError, match=r"got inf at row 1, query q, document e"):
        TrecRun(["q", "q"], ["d", "e"], [0.0, np.inf], "t")


def test_align_by_hand() -> None:
    run = TrecRun(["b", "a", "b", "unjudged", "b"], ["x", "x", "y", "x", "z"], [3, 2, 1, 9, 2], "t")
    qrels = Qrels(
        ["b", "b", "a", "b", "b", "absent"], ["y", "w", "x", "v", "x", "x"], [2, 4, 1, 0, -2, 1]
    )
    scores, labels, qid = align(run, qrels)
    # The run's rows in order, then what is relevant and was not retrieved (w of b).
    assert qid.tolist() == ["b", "a", "b", "b", "b"]
    assert labels.tolist() == [0, 1, 2, 0, 4]
    assert scores[:4].tolist() == [3, 2, 1, 2]
    assert scores[4] < 1
    assert align(run, qrels, unjudged=0.5)[1].tolist() == [0, 1, 2, 0.5, 4]
    assert np.isnan(align(run, qrels, unjudged=math.nan)[1]).tolist() == [False] * 3 + [True, False]


def test_align_refusals() -> None:
    run = TrecRun(["q1"], ["d"], [1.0], "bm25")
    with pytest.raises(ValueError, match=r"no query of the run 'bm25' is judged: it has q1.*01"):
        align(run, Qrels(["01"], ["d"], [1]))
    for bad in (-1, math.inf):
        with pytest.raises(ValueError, match="unjudged must be a number from 0"):
            align(run, Qrels(["q1"], ["d"], [1]), unjudged=bad)


def ndcg(scores: Any, labels: Any, at: int) -> float:
    def dcg(gains: list[float]) -> float:
        return sum(gain / math.log2(i + 2) for i, gain in enumerate(gains[:at]))

    by_score = [label for _, label in sorted(zip(-scores, labels, strict=True))]
    return dcg(by_score) / dcg(sorted(labels, reverse=True))


def test_aligned_ndcg_and_precision_equal_trec_eval() -> None:
    rng = np.random.default_rng(8)
    judgements = {
        f"q{q}": {f"d{d}": int(rng.integers(-1, 4)) for d in rng.permutation(60)[:30]}
        for q in range(20)
    }
    for judged in judgements.values():
        judged["relevant"] = 2
    retrieved = {
        f"q{q}": {f"d{d}": float(rng.normal()) for d in rng.permutation(60)[:20]} for q in range(25)
    }
    pairs = [(q, d, s) for q, docs in retrieved.items() for d, s in docs.items()]
    judged_rows = [(q, d, r) for q, docs in judgements.items() for d, r in docs.items()]
    run = TrecRun(*map(list, zip(*pairs, strict=True)), "t")  # type: ignore[call-arg, arg-type]
    qrels = Qrels(*map(list, zip(*judged_rows, strict=True)))
    scores, labels, qid = align(run, qrels)

    measures = {"ndcg_cut_5", "ndcg_cut_20", "P_10"}
    theirs = pytrec_eval.RelevanceEvaluator(judgements, measures).evaluate(retrieved)
    assert set(qid.tolist()) == theirs.keys()
    for q, values in theirs.items():
        mine, relevance = scores[qid == q], labels[qid == q]
        assert ndcg(mine, relevance, 5) == pytest.approx(values["ndcg_cut_5"], rel=1e-12)
        assert ndcg(mine, relevance, 20) == pytest.approx(values["ndcg_cut_20"], rel=1e-12)
        best = relevance[np.argsort(-mine)[:10]]
        assert np.mean(best > 0) == pytest.approx(values["P_10"], rel=1e-12)
