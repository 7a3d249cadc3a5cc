"""Saved models with garbled trees and a hash that matches; run as a script by a test.

``python tests/mutated_models.py 3000`` loads each, predicts and computes SHAP values, and prints how many were read,
how many were refused by ValueError, and how many ended the process, took too long or raised something else.
"""

from __future__ import annotations

import hashlib
import os
import random
import signal
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from rankwright import Ranker, load

VALUES = [
    "",
    "0",
    "-1",
    "1",
    "3",
    "99999",
    "-99999",
    "2147483647",
    "2147483648",
    "1e308",
    "nan",
    "inf",
    "x",
    "4294967295",
]
SECONDS = 10


def saved_model(folder: Path) -> tuple[str, str, Any]:
    """The text and the manifest of a model with categories and missing values, and rows to predict."""
    rng = np.random.default_rng(0)
    numbers = rng.normal(size=(400, 3))
    numbers[rng.random(numbers.shape) < 0.2] = np.nan
    frame = pd.DataFrame(numbers, columns=["a", "b", "c"])
    frame["kind"] = pd.Categorical([f"k{code}" for code in rng.integers(0, 40, 400)])
    labels = (rng.random(400) < 0.3 + 0.1 * frame["kind"].cat.codes % 3) + (frame["a"].fillna(0) > 0.5)
    ranker = Ranker(n_estimators=4, num_leaves=6, min_child_samples=5, n_jobs=1, verbose=0)
    ranker.fit(frame, labels, qid=np.arange(400) // 10).save(folder)
    return (folder / "model.txt").read_text(), (folder / "manifest.json").read_text(), frame.iloc[:20]


def mutated(text: str, draw: random.Random) -> bytes:
    """Change numbers, lines or bytes."""
    kind = draw.randrange(6)
    lines = text.split("\n")
    chosen = draw.choice([number for number, line in enumerate(lines) if "=" in line])
    name, _, value = lines[chosen].partition("=")
    words = value.split(" ")
    if kind <= 2:
        words[draw.randrange(len(words))] = draw.choice([*VALUES, *words])
        lines[chosen] = f"{name}={' '.join(words)}"
    elif kind == 3:
        words = words[: draw.randrange(len(words) + 1)] if draw.random() < 0.5 else words + words[:1]
        lines[chosen] = f"{name}={' '.join(words)}"
    elif kind == 4:
        if draw.random() < 0.5:
            del lines[chosen]
        else:
            lines.insert(draw.randrange(len(lines)), lines[chosen])
    else:
        content = bytearray(text.encode())
        for _ in range(draw.choice([1, 1, 1, 5, 50])):
            content[draw.randrange(len(content))] = draw.randrange(256)
        return bytes(content[: draw.randrange(len(content))] if draw.random() < 0.2 else content)
    return "\n".join(lines).encode()


def use(folder: Path, rows: Any) -> str:
    signal.alarm(SECONDS)
    try:
        model = load(folder)
        model.predict(rows, threads=1)
        model.importances()
        model.forest.dump()
        model.predict(rows, contributions=True, threads=1)
    except ValueError:
        return "refused"
    except BaseException as error:
        return f"raised {type(error).__name__}"
    finally:
        signal.alarm(0)
    return "read"


def main(cases: int, seed: int) -> None:
    folder = Path(tempfile.mkdtemp())
    text, manifest, rows = saved_model(folder)
    old = hashlib.sha256(text.encode()).hexdigest()
    assert use(folder, rows) == "read"
    outcomes: Counter[str] = Counter()
    number = 0
    while number < cases:
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            for case in range(number, cases):
                content = mutated(text, random.Random(f"{seed} {case}"))
                (folder / "model.txt").write_bytes(content)
                new = hashlib.sha256(content).hexdigest()
                (folder / "manifest.json").write_text(manifest.replace(old, new))
                os.write(write, f"{use(folder, rows)}\n".encode())
            os._exit(0)
        os.close(write)
        with open(read) as answers:
            lines = answers.read().splitlines()
        outcomes.update(lines)
        number += len(lines)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if code:
            outcomes[f"ended by signal {-code}"] += 1
            number += 1
    bad = sum(count for outcome, count in outcomes.items() if outcome not in ("read", "refused"))
    sys.stdout.write(f"{bad} of {cases} bad; {dict(sorted(outcomes.items()))}\n")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0)
