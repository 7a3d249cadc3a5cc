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
import resource
import signal
import sys
import tempfile
import time
import warnings
from collections import Counter
from pathlib import Path

from mutations import changed
from readers import Reader, readers

SECONDS, MEMORY = 10, 3 << 30


class TooSlow(BaseException):
    pass


def limited() -> None:
    def expire(*_: object) -> None:
        raise TooSlow

    signal.signal(signal.SIGALRM, expire)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY + 3 * (1 << 30), -1))  # the libraries take addresses for themselves
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    warnings.simplefilter("ignore")


def attempt(reader: Reader, content: bytes) -> str:
    signal.alarm(SECONDS)
    try:
        reader.use(content)
        return "read"
    except (ValueError, UnicodeDecodeError):
        return "refused"
    except BaseException as error:
        return f"raised {type(error).__name__}: {str(error)[:80]}".replace("\n", " ")
    finally:
        signal.alarm(0)


def attempts(name: str, folder: Path, findings: Path, cases: range, seconds: float, seed: int, send: int) -> None:
    reader = readers(folder)[name]
    limited()
    deadline = time.monotonic() + seconds  # the examples were made before
    if (outcome := attempt(reader, reader.example)) != "read":
        os.write(send, f"the example was {outcome}\n".encode())
    for case in cases:
        if time.monotonic() >= deadline:
            break
        content = changed(reader.example, random.Random(f"{name} {seed} {case}"), reader.structured)
        outcome = attempt(reader, content)
        if outcome not in ("read", "refused"):
            (findings / f"{name.replace('/', '-')}-{seed}-{case}").write_bytes(content)
        os.write(send, f"{outcome}\n".encode(errors="replace"))


def fuzz(name: str, folder: Path, findings: Path, cases: int, seconds: float, seed: int) -> tuple[int, Counter[str]]:
    """Run attempts in a child process, and another one where it ends early."""
    outcomes: Counter[str] = Counter()
    number, deadline = 0, time.monotonic() + seconds
    while number < cases and time.monotonic() < deadline:
        receive, send = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                own = folder / str(number)
                own.mkdir()
                attempts(name, own, findings, range(number, cases), deadline - time.monotonic(), seed, send)
                os._exit(0)
            finally:
                os._exit(1)
        os.close(send)
        with open(receive, encoding="utf-8", errors="replace") as answers:
            lines = answers.read().splitlines()
        outcomes.update(lines)
        number += len(lines)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if not status:
            break
        if not lines:
            sys.exit(f"{name}: the examples could not be made")
        outcomes[f"ended with {status} in case {number}"] += 1
        number += 1
    return number, outcomes


def report(name: str, cases: int, outcomes: Counter[str]) -> int:
    others = {outcome: n for outcome, n in outcomes.items() if outcome not in ("read", "refused")}
    print(
        f"{name:<18} {cases:>7} cases  {outcomes['read']:>7} read  {outcomes['refused']:>7} refused  "
        f"{sum(others.values())} findings",
        flush=True,
    )
    for outcome, n in sorted(others.items(), key=lambda item: -item[1])[:8]:
        print(f"    {n:>5}  {outcome}", flush=True)
    return sum(others.values())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--readers", nargs="+")
    parser.add_argument("--cases", type=int, default=10**9)
    parser.add_argument("--seconds", type=float, default=None, help="for each reader [60 unless --cases is given]")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--findings", type=Path, default=Path("build/findings"))
    options = parser.parse_args()
    seconds = options.seconds or (1e9 if options.cases < 10**9 else 60.0)
    options.findings.mkdir(parents=True, exist_ok=True)
    findings = options.findings.resolve()
    with tempfile.TemporaryDirectory() as scratch:
        names = list(readers(Path(scratch)))
    unknown = set(options.readers or ()) - set(names)
    if unknown:
        sys.exit(f"unknown readers {sorted(unknown)}; choose from {', '.join(names)}")
    total = 0
    for name in options.readers or names:
        with tempfile.TemporaryDirectory() as scratch:
            total += report(name, *fuzz(name, Path(scratch), findings, options.cases, seconds, options.seed))
    print(f"{total} findings")
    sys.exit(bool(total))


if __name__ == "__main__":
    main()
