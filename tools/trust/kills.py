"""End trainings, saves and exports at random moments, and look at what they leave behind.

    python tools/trust/kills.py --rounds 200
    python tools/trust/kills.py --rounds 100 --signals SIGINT SIGTERM

Every other round forks a process that trains in a run folder with a checkpoint after every tree, the others one that
saves and exports over earlier files again and again, and sends it a signal after a random time. Then the run must be
absent or resume to the predictions of a training that was never interrupted, and every file must load.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np

import rankwright as rw
from rankwright.exporting import export
from rankwright.runs import train_run

PARAMETERS = {"n_estimators": 40, "num_leaves": 6, "min_child_samples": 5, "n_jobs": 1}
CHECKPOINTS = {**PARAMETERS, "checkpoint": {"trees": 1}}
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)


def data() -> rw.RankingData:
    return rw.make_web_search(30, kind="short", n_features=20, random_state=1)


def train(folder: Path) -> None:
    train_run(folder, data(), parameters=CHECKPOINTS, verbose=0)


def write(folder: Path) -> None:
    """Save and export one model over another, again and again."""
    models = [rw.Ranker.load(folder / "first"), rw.Ranker.load(folder / "second")]
    for number in range(10_000):
        model = models[number % 2]
        model.save(folder / "model")
        model.save(folder / "model.zip")
        export(model, "json", folder / "model.json")


def interrupted(
    work: Callable[[Path], None], folder: Path, number: signal.Signals, seconds: float
) -> None:
    """Let a forked process work, and send it a signal after this time."""
    child = os.fork()
    if child == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        try:
            work(folder)
        finally:
            os._exit(0)
    time.sleep(seconds)
    os.kill(child, number)
    os.waitpid(child, 0)


def check_training(folder: Path, expected: np.ndarray) -> str:
    where = "nothing yet"
    if folder.exists():
        run = rw.Run.open(folder)
        where = "finished" if run.finished else "under way"
    run = train_run(folder, data(), parameters=CHECKPOINTS, verbose=0)
    same = (
        np.array_equal(run.ranker.predict(data()), expected)
        and len(run.history) == PARAMETERS["n_estimators"]
    )
    leftovers = [path.name for path in folder.rglob(".*")]
    return (
        where
        if same and not leftovers
        else f"WRONG after {where}: same {same}, leftovers {leftovers}"
    )


def check_files(folder: Path, answers: list[np.ndarray]) -> str:
    for name in ("model", "model.zip"):
        scores = rw.load(folder / name).predict(data())
        if not any(np.array_equal(scores, answer) for answer in answers):
            return f"WRONG {name}"
    json.loads((folder / "model.json").read_text())
    return "files load"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--signals", nargs="+", choices=[one.name for one in SIGNALS], default=["SIGKILL"]
    )
    options = parser.parse_args()
    signal.signal(
        signal.SIGINT, signal.default_int_handler
    )  # which processes in the background of a shell ignore
    draw = random.Random(options.seed)
    outcomes: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as scratch:
        whole = train_run(Path(scratch, "whole"), data(), parameters=CHECKPOINTS, verbose=0)
        expected = whole.ranker.predict(data())
        models = [
            whole.ranker,
            rw.Ranker(**{**PARAMETERS, "n_estimators": 20}, verbose=0).fit(data()),
        ]
        answers = [model.predict(data()) for model in models]
        start = time.perf_counter()
        train_run(Path(scratch, "timed"), data(), parameters=CHECKPOINTS, verbose=0)
        seconds = 1.3 * (time.perf_counter() - start)
        for number in range(options.rounds):
            kind = signal.Signals[options.signals[number // 2 % len(options.signals)]]
            if number % 2:
                folder = Path(scratch, "run")
                interrupted(train, folder, kind, draw.uniform(0, seconds))
                outcome = check_training(folder, expected)
                shutil.rmtree(folder)
            else:
                folder = Path(scratch, "files")
                folder.mkdir()
                for name, model in zip(("first", "second"), models, strict=True):
                    model.save(folder / name)
                for name in (
                    "model",
                    "model.zip",
                ):  # what was there has to stay until something else takes its place
                    models[1].save(folder / name)
                export(models[1], "json", folder / "model.json")
                interrupted(write, folder, kind, draw.uniform(0, 0.5))
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
