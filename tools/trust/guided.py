"""Fuzz readers guided by coverage: inputs that reach new code are kept and changed further. Needs atheris.

    python tools/trust/guided.py --seconds 600 --corpus build/corpus letor.txt metric

Each reader runs in a process of its own, in which every branch of the package is instrumented, and which is started
again where an input ends it. Half of the changes are those of `mutations`, which know text and JSON, half are those of
libFuzzer. The parser of LETOR text runs as plain Python, since compiled code cannot be instrumented. What counts as a
finding is said in `fuzz`. The corpus is kept, so a later run resumes from it.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import pkgutil
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import psutil

from outcomes import Trial, attempt, limited, report

UNCOMPILED = ("letor.txt",)
SILENCE = (
    120  # seconds of processor time after which a child that counts nothing hangs in compiled code
)


def import_all(package: str) -> None:
    """Import the modules of a package, some of which are otherwise imported on first use."""
    for module in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}."):
        importlib.import_module(module.name)


def child(name: str, corpus: Path, findings: Path, seed: int, counts: Path) -> None:
    import atheris

    if name not in UNCOMPILED:
        import_all("rankwright.kernels")
    with atheris.instrument_imports(include=["rankwright"]):
        for package in ("data", "engines", "objectives", "training", "tuning"):
            import_all(f"rankwright.{package}")
        import readers
    from mutations import changed

    scratch = Path(tempfile.mkdtemp())
    reader = readers.readers()[name](scratch)
    if not any(corpus.iterdir()):
        for number in range(20):
            content = (
                changed(reader.example, random.Random(number), reader.structured)
                if number
                else reader.example
            )
            (corpus / f"seed{number}").write_bytes(content)
    limited()
    outcomes: Counter[str] = Counter()
    part, written = counts.with_suffix(".part"), 0.0

    def one(content: bytes) -> None:
        nonlocal written
        outcome = attempt(reader, content)
        outcomes[outcome] += 1
        if outcome not in ("read", "refused"):
            (findings / f"{name.replace('/', '-')}-{sum(outcomes.values())}-{seed}").write_bytes(
                content
            )
        if time.monotonic() - written > 0.3:
            part.write_text(json.dumps(outcomes))
            part.replace(counts)
            written = time.monotonic()

    def mutate(content: bytes, most: int, number: int) -> bytes:
        draw = random.Random(number)
        if draw.random() < 0.5:
            return bytes(atheris.Mutate(content, most))[:most]
        return changed(content, draw, reader.structured)[:most]

    most = max(4096, 2 * len(reader.example))
    flags = [f"-seed={seed}", f"-max_len={most}", "-timeout=100000", "-rss_limit_mb=6000"]
    flags += [f"-artifact_prefix={findings}/{name.replace('/', '-')}-", "-verbosity=0"]
    atheris.Setup([sys.argv[0], str(corpus), *flags], one, custom_mutator=mutate)
    atheris.Fuzz()


def fuzz(name: str, corpus: Path, findings: Path, seconds: float, seed: int) -> Trial:
    """Run child processes until they have used the time."""
    total: Counter[str] = Counter()
    corpus.mkdir(parents=True, exist_ok=True)
    while seconds > 0:
        with tempfile.TemporaryDirectory() as scratch:
            counts = Path(scratch, "counts")
            arguments = json.dumps([name, str(corpus), str(findings), seed, str(counts)])
            environment = {**os.environ, "TMPDIR": scratch, "PYTHONWARNINGS": "ignore"}
            environment |= {"NUMBA_DISABLE_JIT": "1"} if name in UNCOMPILED else {}
            process = subprocess.Popen(
                [sys.executable, __file__, "--child", arguments],
                env=environment,
                stderr=subprocess.DEVNULL,
            )
            used, ended = watched(process, counts, seconds)
            found = json.loads(counts.read_text()) if counts.exists() else {}
        total.update(found)
        seconds -= used
        if ended:
            total[ended] += 1
            seed += 1
            if not found:
                sys.exit(f"{name}: the examples could not be made")
    megabytes = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss >> 10
    return Trial(sum(total.values()), total, megabytes)


def watched(process: subprocess.Popen[bytes], counts: Path, seconds: float) -> tuple[float, str]:
    """Wait until a child has used its time or ended; return the time since it began to fuzz, and how it ended."""
    start = used = last_change = 0.0  # of its processor time
    last_answer = b""
    while process.poll() is None:
        time.sleep(0.5)
        with suppress(psutil.NoSuchProcess):
            used = sum(psutil.Process(process.pid).cpu_times()[:2])
        answer = counts.read_bytes() if counts.exists() else b""
        if answer != last_answer:
            start = start or used
            last_answer, last_change = answer, used
        hangs = used - last_change > SILENCE
        if hangs or (start and used - start > seconds):
            process.kill()
            process.wait()
            return used - start, "hangs in compiled code" if hangs else ""
    return max(used - start, 1.0), f"ended with {process.returncode}"


def main() -> None:
    if sys.argv[1:2] == ["--child"]:
        name, corpus, findings, seed, counts = json.loads(sys.argv[2])
        child(name, Path(corpus), Path(findings), seed, Path(counts))
        return
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("readers", nargs="+")
    parser.add_argument(
        "--seconds", type=float, default=600, help="of processor time for each reader"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--corpus", type=Path, default=Path("build/corpus"))
    parser.add_argument("--findings", type=Path, default=Path("build/findings"))
    options = parser.parse_args()
    options.findings.mkdir(parents=True, exist_ok=True)
    total = 0
    for name in options.readers:
        corpus = options.corpus.resolve() / name.replace("/", "-")
        total += report(
            name, fuzz(name, corpus, options.findings.resolve(), options.seconds, options.seed)
        )
        print(f"    {len(list(corpus.iterdir()))} inputs that reach code of their own", flush=True)
    print(f"{total} findings")
    sys.exit(bool(total))


if __name__ == "__main__":
    main()
