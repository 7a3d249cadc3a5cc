"""Trainings interrupted by two SIGINTs shortly after one another, in this process; run as a script by a test.

``python tests/interrupted_trainings.py timed 200`` sends them 0.5 to 30 ms apart, ``... lines 200`` the second at a
chosen line of ours after the first, one later each time. Both print how many results disagree with an uninterrupted
training.
"""

from __future__ import annotations

import contextlib
import json
import logging
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from rankwright import Ranker
from small import TRAIN, VALID, quick

TREES = 40
OPTIONS: dict[str, Any] = {
    "n_estimators": TREES,
    "leaf_values": "full",
    "num_leaves": 40,
    "min_child_samples": 1,
}


def interrupt_twice(first: float, second: float) -> threading.Event:
    """Send two Ctrl-Cs to this thread; the event is set when both were sent."""
    main_thread, sent = threading.get_ident(), threading.Event()

    def send() -> None:
        for pause in (first, second):
            time.sleep(pause)
            # To the main thread, because another one might receive it after the training.
            signal.pthread_kill(main_thread, signal.SIGINT)
        sent.set()

    threading.Thread(target=send).start()
    return sent


def fit_timed(ranker: Ranker, rng: np.random.Generator, longest: float) -> None:
    sent = interrupt_twice(rng.uniform(0.02, longest), 0.0005 * 60 ** rng.uniform())
    with contextlib.suppress(KeyboardInterrupt):
        ranker.fit(TRAIN, eval_set=[VALID])
    # Not by joining the thread: a join that is interrupted takes the thread for finished.
    while not sent.is_set():
        with contextlib.suppress(KeyboardInterrupt):
            time.sleep(0.001)
    with contextlib.suppress(KeyboardInterrupt):
        time.sleep(0.01)  # for a signal that was sent but not yet handled


def fit_traced(ranker: Ranker, line: int) -> int:
    """Interrupt after ten trees, and again when this many lines of ours were executed since; returns their number."""
    lines = -1

    def trace(frame: Any, event: str, _: Any) -> Any:
        nonlocal lines
        if "rankwright" not in frame.f_code.co_filename:
            return None
        if event == "line" and lines >= 0:
            lines += 1
            if lines == line:
                signal.raise_signal(signal.SIGINT)
        return trace

    def first(progress: Any) -> None:
        nonlocal lines
        if progress.iteration == 10:
            lines = 0
            signal.raise_signal(signal.SIGINT)

    sys.settrace(trace)
    try:
        ranker.fit(TRAIN, eval_set=[VALID], callbacks=[first])
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(None)
    return lines


def faults(
    folder: Path, whole: Ranker, stages: list[Any], fit: Callable[[Ranker], object]
) -> list[str]:
    """Interrupt a training, resume it, and list what disagrees."""
    checkpoint = {"path": folder / "save", "trees": 7}
    ranker = quick(checkpoint=checkpoint, **OPTIONS)
    fit(ranker)
    seen = []
    if hasattr(ranker, "model_"):
        n = ranker.n_estimators_
        if not np.array_equal(ranker.predict(VALID), stages[n - 1]):
            seen.append("the model has other trees than it says")
        if (
            ranker.evals_result_["valid_0"]["ndcg@10"]
            != whole.evals_result_["valid_0"]["ndcg@10"][:n]
        ):
            seen.append("the curve is another")
    if (folder / "save" / "manifest.json").exists():
        state = json.loads((folder / "save" / "manifest.json").read_text())["state"]
        if (folder / "save" / "model.txt").read_text().count("Tree=") != state["trees"][-1]:
            seen.append("the checkpoint contradicts itself")
        resumed = quick(checkpoint=checkpoint, **OPTIONS).fit(TRAIN, eval_set=[VALID])
        if not np.array_equal(resumed.predict(VALID), whole.predict(VALID)):
            seen.append("the resumed model is another")
    return [*seen, "kept" if hasattr(ranker, "model_") and ranker.interrupted_ else "other"]


def main(kind: str, trainings: int, seed: int) -> None:
    logging.getLogger("rankwright").setLevel(logging.ERROR)
    whole = quick(**OPTIONS).fit(TRAIN, eval_set=[VALID])
    began = time.perf_counter()
    quick(**OPTIONS).fit(TRAIN, eval_set=[VALID])
    longest = time.perf_counter() - began
    stages = list(whole.staged_predict(VALID))
    rng = np.random.default_rng(seed)
    wrong, kept = 0, 0
    # Nearly all lines read the text of trees: the first ones are taken one by one, the rest at growing distances.
    lines = np.unique(np.geomspace(1, fit_traced(quick(**OPTIONS), -1), trainings).astype(int))
    for number in range(trainings):
        folder = Path(tempfile.mkdtemp())
        if kind == "timed":
            seen = faults(folder, whole, stages, lambda ranker: fit_timed(ranker, rng, longest))
        else:
            line = int(lines[number % len(lines)])
            seen = faults(folder, whole, stages, lambda ranker: fit_traced(ranker, line))  # noqa: B023
        shutil.rmtree(folder)
        kept += seen.pop() == "kept"
        wrong += bool(seen)
        for fault in seen:
            sys.stdout.write(f"{fault}\n")
    sys.stdout.write(f"{wrong} of {trainings} wrong, {kept} interrupted models\n")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 0)
