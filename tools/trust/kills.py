"""End trainings, saves and exports at random moments, and look at what they leave behind.

    python tools/trust/kills.py --rounds 100

Each round starts a process that trains in a run folder with a checkpoint after every tree, or that saves and exports
over earlier files again and again, and sends it SIGKILL, SIGTERM or SIGINT after a random time. Then the run must be
absent or resume to the predictions of a training that was never interrupted, and every file must load.
"""

from __future__ import annotations

import argparse
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np

import rankwright as rw
from rankwright.runs import train_run

PARAMETERS = {"n_estimators": 40, "num_leaves": 6, "min_child_samples": 5, "n_jobs": 1}
CHECKPOINTS = {**PARAMETERS, "checkpoint": {"trees": 1}}
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
TRAIN = """
import sys, rankwright as rw, rankwright.ranker
from kills import CHECKPOINTS, data
from rankwright.runs import train_run
print("started", flush=True)
train_run(sys.argv[1], data(), parameters=CHECKPOINTS, verbose=0)
"""
WRITE = """
import sys, rankwright as rw
from rankwright.export import export
models = [rw.Ranker.load(f"{sys.argv[1]}/first"), rw.Ranker.load(f"{sys.argv[1]}/second")]
print("started", flush=True)
for number in range(10_000):
    model = models[number % 2]
    model.save(f"{sys.argv[1]}/model")
    model.save(f"{sys.argv[1]}/model.zip")
    export(model, "json", f"{sys.argv[1]}/model.json")
"""


def data() -> rw.RankingData:
    return rw.make_web_search(30, kind="short", n_features=20, seed=1)


def interrupted(code: str, folder: Path, number: signal.Signals, seconds: float) -> None:
    """Run code in a process and end it after it was at work for this time."""
    here = str(Path(__file__).parent)
    prefix = f"import sys; sys.path.insert(0, {here!r})\n"
    process = subprocess.Popen(
        [sys.executable, "-c", prefix + code, str(folder)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert process.stdout is not None
    process.stdout.readline()
    time.sleep(seconds)
    process.send_signal(number)
    process.communicate()


def check_training(folder: Path, expected: np.ndarray) -> str:
    where = "nothing yet"
    if folder.exists():
        run = rw.Run.open(folder)
        where = "finished" if run.finished else "under way"
    run = train_run(folder, data(), parameters=CHECKPOINTS, verbose=0)
    same = np.array_equal(run.ranker.predict(data()), expected) and len(run.history) == PARAMETERS["n_estimators"]
    leftovers = [path.name for path in folder.rglob(".*")]
    return where if same and not leftovers else f"WRONG after {where}: same {same}, leftovers {leftovers}"


def check_files(folder: Path, answers: list[np.ndarray]) -> str:
    for name in ("model", "model.zip"):
        if (folder / name).exists():
            scores = rw.load(folder / name).predict(data())
            if not any(np.array_equal(scores, answer) for answer in answers):
                return f"WRONG {name}"
    if (folder / "model.json").exists():
        import json

        json.loads((folder / "model.json").read_text())
    return "files load"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    draw = random.Random(options.seed)
    outcomes: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as scratch:
        whole = train_run(Path(scratch, "whole"), data(), parameters=CHECKPOINTS, verbose=0)
        expected = whole.ranker.predict(data())
        models = [whole.ranker, rw.Ranker(**{**PARAMETERS, "n_estimators": 20}, verbose=0).fit(data())]
        answers = [model.predict(data()) for model in models]
        start = time.perf_counter()
        train_run(Path(scratch, "timed"), data(), parameters=CHECKPOINTS, verbose=0)
        seconds = 1.3 * (time.perf_counter() - start)
        for number in range(options.rounds):
            kind = SIGNALS[number % 3]
            if number % 2:
                folder = Path(scratch, "run")
                interrupted(TRAIN, folder, kind, draw.uniform(0, seconds))
                outcome = check_training(folder, expected)
                shutil.rmtree(folder)
            else:
                folder = Path(scratch, "files")
                folder.mkdir()
                for name, model in zip(("first", "second"), models, strict=True):
                    model.save(folder / name)
                interrupted(WRITE, folder, kind, draw.uniform(0, 0.5))
                outcome = check_files(folder, answers)
                shutil.rmtree(folder)
            outcomes[f"{kind.name}: {outcome}"] += 1
            print(f"{number + 1:>4}  {kind.name}: {outcome}", file=sys.stderr, flush=True)
    wrong = sum(n for outcome, n in outcomes.items() if "WRONG" in outcome)
    for outcome, n in sorted(outcomes.items()):
        print(f"{n:>5}  {outcome}")
    print(f"{wrong} of {options.rounds} wrong")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
