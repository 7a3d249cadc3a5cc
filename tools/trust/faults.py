"""Let the disk be full at every single write, and look at what is left.

    python tools/trust/faults.py

Each operation is repeated with a failure at its first, second, third, ... call to the operating system that writes (a
file opened, bytes flushed, a file or a folder moved), until it succeeds. After each failure the error must name a file,
what was there before must be unchanged, and nothing may be left over.
"""

from __future__ import annotations

import errno
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import rankwright as rw
from kills import CHECKPOINTS, PARAMETERS, data
from rankwright.exporting import export
from rankwright.runs import train_run

CALLS = ("fsync", "replace", "mkdir", "ftruncate")
MOST = 200


class Full:
    """Calls that write, of which number ``at`` fails."""

    def __init__(self, at: int) -> None:
        self.at, self.calls = at, 0

    def wrap(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*arguments: Any, **options: Any) -> Any:
            self.calls += 1
            if self.calls == self.at:
                # What takes a path names it, what takes a descriptor does not, as in the operating system.
                names = (
                    [os.fspath(arguments[0])] if isinstance(arguments[0], str | os.PathLike) else []
                )
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), *names)
            return function(*arguments, **options)

        return counted


@contextmanager
def full_at(number: int) -> Iterator[Full]:
    """Fail at one call of `CALLS`."""
    disk = Full(number)
    kept = {name: getattr(os, name) for name in CALLS}
    try:
        for name, function in kept.items():
            setattr(os, name, disk.wrap(function))
        yield disk
    finally:
        for name, function in kept.items():
            setattr(os, name, function)


def try_all(
    name: str, operation: Callable[[], Any], check: Callable[[], str]
) -> tuple[int, list[str]]:
    """Fail at every call in turn; return how many there were, and what went wrong."""
    wrong = []
    for number in range(1, MOST):
        try:
            with full_at(number) as disk:
                operation()
        except OSError as error:
            if error.errno != errno.ENOSPC:
                wrong.append(f"{name}, call {number}: {error!r}")
            elif error.filename is None:
                wrong.append(f"{name}, call {number}: the error names no file")
        except ValueError as error:
            wrong.append(f"{name}, call {number}: {error}")
        else:
            if disk.calls < number:
                return number - 1, wrong
        if problem := check():
            wrong.append(f"{name}, call {number}: {problem}")
    return MOST, [*wrong, f"{name} does not end"]


def main() -> None:
    table = data()
    old, new = (
        rw.Ranker(**{**PARAMETERS, "n_estimators": n}, verbose=0).fit(table) for n in (3, 5)
    )
    answers = [model.predict(table) for model in (old, new)]
    total, wrong = 0, []
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)

        def loads(name: str) -> Callable[[], str]:
            def check() -> str:
                scores = rw.load(folder / name).predict(table)
                if not any(np.array_equal(scores, answer) for answer in answers):
                    return "the model changed"
                return leftovers()

            return check

        def leftovers() -> str:
            found = [path for path in folder.rglob("*") if path.name.endswith((".part", ".new"))]
            # A manifest may wait beside trees that were moved: together they are the new model.
            names = [
                path.name
                for path in found
                if not (path.parent / "model.txt").exists() or path.name[-4:] == "part"
            ]
            return f"{names} are left" if names else ""

        operations: dict[str, tuple[Callable[[], Any], Callable[[], str]]] = {}
        for name in ("model", "model.zip"):
            old.save(folder / name)
            operations[f"save {name}"] = (lambda name=name: new.save(folder / name), loads(name))
        for name in ("data.txt", "data.csv", "data.parquet", "data.txt.gz"):
            operations[f"write {name}"] = (
                lambda name=name: rw.write_data(table, folder / name),
                leftovers,
            )
        operations["export"] = (lambda: export(new, "json", folder / "model.json"), leftovers)
        expected = rw.Ranker(**PARAMETERS, verbose=0).fit(table).predict(table)
        wanted = {**CHECKPOINTS, "n_estimators": 4}
        shorter = (
            rw.Ranker(**{**PARAMETERS, "n_estimators": 4}, verbose=0).fit(table).predict(table)
        )
        assert len(expected) == len(shorter)
        number = [0]

        def train() -> None:
            number[0] += 1
            train_run(folder / f"run{number[0]}", table, parameters=wanted, verbose=0)

        def resume() -> str:
            run = train_run(folder / f"run{number[0]}", table, parameters=wanted, verbose=0)
            return (
                leftovers()
                if np.array_equal(run.ranker.predict(table), shorter)
                else "resumed to another model"
            )

        operations["train in a run"] = (train, resume)
        for name, (operation, check) in operations.items():
            calls, problems = try_all(name, operation, check)
            total, wrong = total + calls, wrong + problems
            print(f"{name:<20} {calls:>4} writes failed  {len(problems)} wrong", flush=True)
    for problem in wrong[:20]:
        print(f"    {problem}")
    print(f"{len(wrong)} of {total} wrong")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
