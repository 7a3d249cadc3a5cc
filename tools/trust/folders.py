"""Model folders with changed trees and manifests, and hashes that match."""

from __future__ import annotations

import hashlib
import json
import random
from pathlib import Path
from typing import Any

import numpy as np

import rankwright as rw
from mutations import TOKENS, changed_bytes, changed_json, changed_text

SEPARATOR = b"\0manifest\0"  # between trees and manifest, which make one input
TREE_LINES = (
    *(
        "left_child",
        "right_child",
        "split_feature",
        "threshold",
        "decision_type",
        "leaf_value",
        "num_leaves",
        "num_cat",
    ),
    *("cat_boundaries", "cat_threshold", "leaf_count", "internal_count", "split_gain"),
)


def changed_folder(content: bytes, draw: random.Random) -> bytes:
    """Change the trees, the manifest or both."""
    trees, _, manifest = content.rpartition(SEPARATOR)
    part = draw.random()
    if part < 0.75:
        for _ in range(draw.choice([1, 1, 1, 2, 4])):
            trees = changed_trees(trees, draw)
    if part >= 0.7:
        change = changed_bytes if draw.random() < 0.2 else changed_json
        try:
            manifest = change(manifest, draw)
        except (ValueError, RecursionError):
            manifest = changed_bytes(manifest, draw)
    return trees + SEPARATOR + manifest


def changed_trees(trees: bytes, draw: random.Random) -> bytes:
    """Change bytes, words or the structure of the trees."""
    kind = draw.random()
    if kind < 0.2:
        return changed_bytes(trees, draw)
    if kind < 0.35:
        return changed_text(trees, draw)
    try:
        if not trees.startswith(b"{"):
            return changed_lines(trees, draw)
        return changed_json(trees, draw) if kind < 0.55 else changed_document(trees, draw)
    except (
        ValueError,
        TypeError,
        LookupError,
        AttributeError,
        RecursionError,
    ):  # changed beyond recognition before
        return changed_bytes(trees, draw)


def changed_numbers(numbers: list[Any], draw: random.Random, other: Any) -> None:
    """Change, add, drop or exchange entries: mostly to another number that could stand there."""
    if not numbers:
        numbers.append(other)
        return
    place, kind = draw.randrange(len(numbers)), draw.random()
    if kind < 0.6:
        whole = draw.randrange(-len(numbers) - 2, len(numbers) + 2)
        numbers[place] = type(numbers[place])(whole) if draw.random() < 0.7 else other
    elif kind < 0.75:
        second = draw.randrange(len(numbers))
        numbers[place], numbers[second] = numbers[second], numbers[place]
    elif kind < 0.9:
        del numbers[draw.randrange(len(numbers)) :]
    else:
        numbers.extend(numbers[: draw.choice([1, 2, len(numbers)])])


def changed_lines(trees: bytes, draw: random.Random) -> bytes:
    """Change a tree in the text of LightGBM, or the order and number of trees."""
    head, mark, rest = trees.decode().partition("Tree=")
    blocks, end, tail = rest.partition("end of trees")
    parts = blocks.split("Tree=")
    chosen = draw.randrange(len(parts))
    if draw.random() < 0.15:
        parts.insert(draw.randrange(len(parts)), parts[chosen])
        if draw.random() < 0.5:
            del parts[draw.randrange(len(parts))]
        return (head + mark + "Tree=".join(parts) + end + tail).encode()
    lines = parts[chosen].split("\n")
    names = [line.partition("=")[0] for line in lines]
    places = [names.index(name) for name in TREE_LINES if name in names]
    for place in draw.sample(places, draw.choice([1, 1, 2, 3])):
        numbers = lines[place].partition("=")[2].split(" ")
        changed_numbers(numbers, draw, draw.choice(TOKENS))
        lines[place] = f"{names[place]}={' '.join(numbers)}"
    parts[chosen] = "\n".join(lines)
    return (head + mark + "Tree=".join(parts) + end + tail).encode()


def changed_document(trees: bytes, draw: random.Random) -> bytes:
    """Change fields of a tree in a document of trees."""
    document = json.loads(trees)
    tree = draw.choice(document["trees"])
    for name in draw.sample(sorted(tree), draw.choice([1, 1, 2, 3])):
        changed_numbers(
            tree[name],
            draw,
            draw.choice([None, -1, 2**31, 2**63, 1e308, -1e308, 5e-324, 0.5, "x", [0]]),
        )
    return json.dumps(document).encode()


class Folder:
    """A saved model of an engine, and what is done with a changed one."""

    def __init__(
        self, folder: Path, engine: str, table: rw.RankingData, parameters: dict[str, Any]
    ) -> None:
        self.folder, self.rows = folder / "model", table.X[:20]
        rw.Ranker(**{**parameters, "num_leaves": 6}, engine=engine, verbose=0).fit(table).save(
            self.folder
        )
        manifest = (self.folder / "manifest.json").read_bytes()
        self.file = self.folder / json.loads(manifest)["model_file"]
        self.example = self.file.read_bytes() + SEPARATOR + manifest

    def use(self, content: bytes) -> None:
        """Load, predict, explain, write and read again; raise AssertionError where what was read is not sound."""
        trees, _, manifest = content.rpartition(SEPARATOR)
        try:
            document = json.loads(manifest)
            document["model_sha256"] = hashlib.sha256(trees).hexdigest()
            manifest = json.dumps(document).encode()
        except (ValueError, TypeError, RecursionError):
            pass
        self.file.write_bytes(trees)
        (self.folder / "manifest.json").write_bytes(manifest)
        model = rw.load(self.folder)
        scores = model.predict(self.rows, n_jobs=1)
        again = type(model.forest).load(model.forest.dump())
        if not np.isfinite(scores).all() or not np.array_equal(again.predict(self.rows), scores):
            raise AssertionError(
                "scores are not finite, or others after the trees were written and read again"
            )
        if not np.isfinite(model.importances()).all():
            raise AssertionError("importances are not finite")
        values = model.predict(self.rows, contributions=True, n_jobs=1)
        largest = sum(float(np.abs(tree.value).max()) for tree in model.forest.trees())
        if not np.allclose(values.sum(axis=1), scores, rtol=1e-6, atol=1e-6 * max(1.0, largest)):
            raise AssertionError("SHAP values do not add up to the scores")
