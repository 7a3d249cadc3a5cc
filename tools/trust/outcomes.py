"""How an attempt to read something ended, within limits of time and memory, and the counts of many."""

from __future__ import annotations

import os
import resource
import signal
import warnings
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from readers import Reader

SECONDS, MEMORY = 10, 3 << 30


class TooSlow(BaseException):
    pass


def limited() -> None:
    def expire(*_: object) -> None:
        raise TooSlow

    signal.signal(signal.SIGPROF, expire)
    resource.setrlimit(
        resource.RLIMIT_AS, (MEMORY + 3 * (1 << 30), -1)
    )  # the libraries take addresses for themselves
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    warnings.simplefilter("ignore")


def attempt(reader: Reader, content: bytes) -> str:
    signal.setitimer(
        signal.ITIMER_PROF, SECONDS
    )  # processor time, which does not depend on other load
    try:
        reader.use(content)
        return "read"
    except (ValueError, UnicodeDecodeError):
        return "refused"
    except BaseException as error:
        return f"raised {type(error).__name__}: {str(error)[:80]}".replace("\n", " ")
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


class Trial(NamedTuple):
    """What came of the attempts of one reader."""

    cases: int
    outcomes: Counter[str]
    megabytes: int  # of the largest process


def report(name: str, trial: Trial) -> int:
    outcomes = trial.outcomes
    others = {outcome: n for outcome, n in outcomes.items() if outcome not in ("read", "refused")}
    print(
        f"{name:<19} {trial.cases:>7} cases  {outcomes['read']:>7} read  {outcomes['refused']:>7} refused  "
        f"{sum(others.values())} findings  at most {trial.megabytes} MB",
        flush=True,
    )
    for outcome, n in sorted(others.items(), key=lambda item: -item[1])[:8]:
        print(f"    {n:>5}  {outcome}", flush=True)
    return sum(others.values())
