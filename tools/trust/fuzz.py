"""Feed changed files and text to every reader, and count how each attempt ends.

    python tools/trust/fuzz.py --seconds 60
    python tools/trust/fuzz.py --readers model.txt --cases 100000

An attempt may succeed or end in a ValueError. Anything else is a finding: another exception, a signal, more than ten
seconds, or three gigabytes. Findings are written to a folder, to be kept as inputs of tests.
"""

from __future__ import annotations

import argparse
import os
import random
import select
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import psutil

from mutations import changed
from outcomes import Trial, attempt, limited, report
from readers import readers

SILENCE = (
    120  # seconds of processor time after which a child that answers nothing hangs in compiled code
)

STOPPED: list[bool] = []  # by SIGTERM: what was tried so far is reported


def attempts(
    name: str, folder: Path, findings: Path, cases: range, seconds: float, seed: int, send: int
) -> None:
    reader = readers()[name](folder)
    limited()
    deadline = time.monotonic() + seconds  # the examples were made before
    if (outcome := attempt(reader, reader.example)) != "read":
        os.write(send, f"the example was {outcome}\n".encode())
    for case in cases:
        if time.monotonic() >= deadline:
            break
        draw = random.Random(f"{name} {seed} {case}")
        content = (
            reader.change(reader.example, draw)
            if reader.change
            else changed(reader.example, draw, reader.structured)
        )
        outcome = attempt(reader, content)
        if outcome not in ("read", "refused"):
            (findings / f"{name.replace('/', '-')}-{seed}-{case}").write_bytes(content)
        os.write(send, f"{outcome}\n".encode(errors="replace"))


def answers(receive: int, child: int) -> list[str]:
    """Read what a child process answers; one that is silent for long is killed."""
    process, lines = psutil.Process(child), b""
    waited, used = (
        0,
        0.0,
    )  # seconds, without those in which this process is paused too; processor time of the child
    while True:
        if STOPPED:
            os.kill(child, signal.SIGKILL)
        if select.select([receive], [], [], 1)[0]:
            waited, used = 0, sum(process.cpu_times()[:2])
            if not (block := os.read(receive, 1 << 16)):
                return lines.decode(errors="replace").splitlines()
            lines += block
        else:
            waited += 1
            if waited > 10 * SILENCE or sum(process.cpu_times()[:2]) - used > SILENCE:
                os.kill(child, signal.SIGKILL)


def fuzz(name: str, folder: Path, findings: Path, cases: int, seconds: float, seed: int) -> Trial:
    """Run attempts in a child process, and another one where it ends early."""
    outcomes: Counter[str] = Counter()
    number, largest, deadline = 0, 0, time.monotonic() + seconds
    while number < cases and time.monotonic() < deadline:
        receive, send = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                own = folder / str(number)
                own.mkdir()
                attempts(
                    name,
                    own,
                    findings,
                    range(number, cases),
                    deadline - time.monotonic(),
                    seed,
                    send,
                )
                os._exit(0)
            finally:
                os._exit(1)
        os.close(send)
        lines = answers(receive, child)
        os.close(receive)
        outcomes.update(lines)
        number += len(lines)
        _, code, used = os.wait4(child, 0)
        status, largest = os.waitstatus_to_exitcode(code), max(largest, used.ru_maxrss >> 10)
        if STOPPED or not status:
            break
        if not lines:
            sys.exit(f"{name}: the examples could not be made")
        outcomes[f"ended with {status} in case {number}"] += 1
        number += 1
    return Trial(number, outcomes, largest)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--readers", nargs="+")
    parser.add_argument("--cases", type=int, default=10**9)
    parser.add_argument(
        "--seconds", type=float, default=None, help="for each reader [60 unless --cases is given]"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--findings", type=Path, default=Path("build/findings"))
    options = parser.parse_args()
    seconds = options.seconds or (1e9 if options.cases < 10**9 else 60.0)
    options.findings.mkdir(parents=True, exist_ok=True)
    findings = options.findings.resolve()
    names = list(readers())
    unknown = set(options.readers or ()) - set(names)
    if unknown:
        sys.exit(f"unknown readers {sorted(unknown)}; choose from {', '.join(names)}")
    signal.signal(signal.SIGTERM, lambda *_: STOPPED.append(True))
    total = 0
    for name in [] if STOPPED else options.readers or names:
        with tempfile.TemporaryDirectory() as scratch:
            total += report(
                name, fuzz(name, Path(scratch), findings, options.cases, seconds, options.seed)
            )
    print(f"{total} findings")
    sys.exit(bool(total))


if __name__ == "__main__":
    main()
