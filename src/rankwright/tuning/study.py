"""Studies of Optuna, in memory or in a file from which a killed search goes on.

The file is Optuna's journal: one line per event, appended. A kill can leave an unfinished last line and a trial that
never ends; opening the file cuts off the one and closes the other. One process at a time holds the file.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import IO, Any

_NAME = "rankwright"
_SEARCH = "search"
_START = b'{"op_code"'


def load_optuna() -> Any:
    """Import Optuna, or say how to install it."""
    try:
        return import_module("optuna")
    except ImportError:
        raise ImportError('tuning needs optuna, which is not installed: pip install "rankwright[tune]".') from None


@contextmanager
def open_study(path: str | os.PathLike[str] | None, search: Mapping[str, Any], pruner: Any) -> Iterator[Any]:
    """Open a study to be maximised, and hold its file until the end.

    Parameters
    ----------
    path
        The file; made if it is not there. None keeps the study in memory.
    search
        What is searched, as text and numbers by name: a file that holds another search is refused.
    pruner
        A pruner of Optuna.
    """
    optuna = load_optuna()
    if path is None:
        yield _study(optuna, optuna.storages.InMemoryStorage(), search, pruner, "the study")
        return
    file = Path(path)
    if file.is_dir():
        raise ValueError(f"{file} is a folder; a study is a file. Name one in it, such as {file / 'study.log'}.")
    file.parent.mkdir(parents=True, exist_ok=True)
    with open(file, "ab+") as held:
        _hold(held, file)
        _mend(held, file)
        # Whoever left Optuna's own lock behind is dead: this process holds the file.
        lock = optuna.storages.journal.JournalFileOpenLock(str(file))
        Path(f"{file}.lock").unlink(missing_ok=True)
        try:
            storage = optuna.storages.JournalStorage(optuna.storages.journal.JournalFileBackend(str(file), lock))
        except (ValueError, KeyError) as error:
            raise ValueError(f"{file} is damaged and cannot be read as a study ({error}); choose another.") from None
        yield _study(optuna, storage, search, pruner, str(file))


def _hold(held: IO[bytes], file: Path) -> None:
    """Keep other processes out for as long as the file is open; the system lets go of it when the process dies."""
    try:
        import fcntl
    except ImportError:  # not on Windows: there, two searches on one file are up to the user
        return
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise ValueError(f"{file} is in use by another search; wait for it to end, or choose another file.") from None


def _mend(held: IO[bytes], file: Path) -> None:
    """Cut off an unfinished last line; a file that is no study is left alone."""
    held.seek(0)
    content = held.read()
    if content[: len(_START)] != _START[: len(content)]:
        raise ValueError(f"{file} is not a study; choose another file, or one that does not exist yet.")
    complete = content.rfind(b"\n") + 1
    if complete < len(content):
        held.truncate(complete)


def _study(optuna: Any, storage: Any, search: Mapping[str, Any], pruner: Any, shown: str) -> Any:
    if not storage.get_all_studies():
        with unannounced():
            storage.create_new_study([optuna.study.StudyDirection.MAXIMIZE], _NAME)
    if _NAME not in [one.study_name for one in storage.get_all_studies()]:
        raise ValueError(f"{shown} holds a study that was not made here; choose another file.")
    study = optuna.load_study(study_name=_NAME, storage=storage, pruner=pruner)
    wanted = json.loads(json.dumps(search))
    known = study.user_attrs.get(_SEARCH)
    if known is None:
        study.set_user_attr(_SEARCH, wanted)
    elif known != wanted:
        differing = [name for name in wanted if known.get(name) != wanted[name]]
        raise ValueError(
            f"{shown} holds another search: {', '.join(differing)} differ. Choose another file, or search as it did."
        )
    running = optuna.trial.TrialState.RUNNING
    for trial in study.get_trials(deepcopy=False, states=(running,)):
        study.tell(trial.number, state=optuna.trial.TrialState.FAIL)
    return study


@contextmanager
def unannounced() -> Iterator[None]:
    """Spare the user Optuna's line about a new study, as everything that Optuna would say below a warning."""
    logger = logging.getLogger("optuna")
    level = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(level)
