"""Optuna studies, in memory or in a file from which a killed search resumes.

The file is Optuna's journal: one line per event, appended. A crash can leave an incomplete last line and a running
trial; opening the file removes the line and closes the trial. The file is locked by one process at a time.
"""

from __future__ import annotations

import json
import logging
import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rankwright.support.environment import require
from rankwright.support.locks import locked

_NAME = "rankwright"
_SEARCH = "search"
_START = b'{"op_code"'


class _OtherStudy(ValueError):
    """The file holds a study, but not this one."""


def load_optuna() -> Any:
    """Import Optuna, or say how to install it."""
    with warnings.catch_warnings():
        # Optuna imports tqdm, and tqdm asks notebooks for widgets that are not used here.
        warnings.filterwarnings("ignore", message="IProgress not found")
        return require("tuning", "tune", "optuna")


@contextmanager
def open_study(
    path: str | os.PathLike[str] | None, search: Mapping[str, Any], pruner: Any
) -> Iterator[Any]:
    """Open a study to be maximised, and lock its file until the end.

    Parameters
    ----------
    path
        The file; created if missing. None for a study in memory.
    search
        Description of the search, as text and numbers by name: a file of another search raises a ValueError.
    pruner
        A pruner of Optuna.
    """
    optuna = load_optuna()
    if path is None:
        yield _study(optuna, optuna.storages.InMemoryStorage(), search, pruner, "the study")
        return
    file = Path(path)
    if file.is_dir():
        raise ValueError(
            f"{file} is a folder; a study is a file. Name one in it, such as {file / 'study.log'}."
        )
    file.parent.mkdir(parents=True, exist_ok=True)
    with locked(file, "a search"):
        _repair(file)
        # This process has locked the file, so a remaining lock of Optuna belongs to a dead process.
        lock = optuna.storages.journal.JournalFileOpenLock(str(file))
        Path(f"{file}.lock").unlink(missing_ok=True)
        try:
            storage = optuna.storages.JournalStorage(
                optuna.storages.journal.JournalFileBackend(str(file), lock)
            )
            study = _study(optuna, storage, search, pruner, str(file))
        except _OtherStudy:
            raise
        except Exception as error:  # Optuna raises many kinds for lines that were changed
            reason = f"{type(error).__name__}: {str(error)[:200]}"
            raise ValueError(
                f"{file} is damaged and cannot be read as a study ({reason}); choose another."
            ) from None
        yield study


def _repair(file: Path) -> None:
    """Remove an incomplete last line; a file that is not a study is left unchanged."""
    file.touch()
    content = file.read_bytes()
    if content[: len(_START)] != _START[: len(content)]:
        raise ValueError(
            f"{file} is not a study; choose another file, or one that does not exist yet."
        )
    complete = content.rfind(b"\n") + 1
    if complete < len(content):
        os.truncate(file, complete)


def _study(optuna: Any, storage: Any, search: Mapping[str, Any], pruner: Any, source: str) -> Any:
    if not storage.get_all_studies():
        with quiet_optuna():
            storage.create_new_study([optuna.study.StudyDirection.MAXIMIZE], _NAME)
    if _NAME not in [entry.study_name for entry in storage.get_all_studies()]:
        raise _OtherStudy(f"{source} holds a study of another program; choose another file.")
    study = optuna.load_study(study_name=_NAME, storage=storage, pruner=pruner)
    description = json.loads(json.dumps(search))
    stored = study.user_attrs.get(_SEARCH)
    if stored is None:
        study.set_user_attr(_SEARCH, description)
    elif stored != description:
        differing = [name for name in description if stored.get(name) != description[name]]
        raise _OtherStudy(
            f"{source} holds another search ({', '.join(differing)}). Choose another file, or the same settings."
        )
    running = optuna.trial.TrialState.RUNNING
    for trial in study.get_trials(deepcopy=False, states=(running,)):
        study.tell(trial.number, state=optuna.trial.TrialState.FAIL)
    return study


@contextmanager
def quiet_optuna() -> Iterator[None]:
    """Suppress Optuna's messages below a warning, such as the one about a new study."""
    logger = logging.getLogger("optuna")
    level = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(level)
