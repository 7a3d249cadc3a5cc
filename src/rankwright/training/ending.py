"""How a training ended: an entry of the manifest, and a line about it for users."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rankwright.support.checks import is_number, is_whole
from rankwright.training.plan import Plan
from rankwright.training.state import State
from rankwright.training.stopping import improvement_for

_REASONS = {
    "all": ", as many as n_estimators allows",
    "patience": ", the last {patience} without an improvement",
    "no split": ", because no further split helps",
    "callback": ", because a callback ended it",
    "interrupted": " by Ctrl-C",
}


def describe_ending(
    state: State, plan: Plan, *, interrupted: bool, held_out: bool
) -> dict[str, Any]:
    """Describe the end of a pass for the manifest: its trees, and why there are no more.

    If the first evaluation set is ``held_out`` from training, ``best_iteration`` has its best value,
    and ``loss`` is the loss from there to the last iteration.
    """
    reason = "callback"
    if interrupted:
        reason = "interrupted"
    elif state.finished:
        reason = "patience" if _has_waited(state, plan) else "no split"
    elif state.iteration >= plan.n_trees:
        reason = "all"
    best, loss = None, 0.0
    if held_out:
        best = state.best(plan.target)
    if best is not None:
        curve = _watched_curve(state)
        loss = abs(curve[best - 1] - curve[-1])
    return {
        "trees": state.n_trees - state.initial_trees,
        "reason": reason,
        "patience": plan.patience,
        "best_iteration": best,
        "loss": loss,
    }


def _has_waited(state: State, plan: Plan) -> bool:
    """Return True if early stopping ended the pass."""
    if plan.patience is None:
        return False
    higher = plan.target.higher_is_better
    improvement = improvement_for(plan.stopping_rule, higher_is_better=higher)
    return improvement.after(_watched_curve(state)).waited >= plan.patience


def _watched_curve(state: State) -> list[float]:
    return next(iter(state.history[0].values()))


def read_ending(values: Any) -> dict[str, Any]:
    """Check the manifest's entry about the end of the training; raise ValueError if it is damaged."""
    is_ending = (
        isinstance(values, dict)
        and values.get("reason") in _REASONS
        and is_whole(values.get("trees"))
        and is_number(values.get("loss"))
        and all(
            values.get(name) is None or is_whole(values[name])
            for name in ("patience", "best_iteration")
        )
    )
    if not is_ending:
        raise ValueError("the manifest's entry about the end of the training was damaged.")
    return dict(values)


def ending_line(manifest: Mapping[str, Any]) -> str:
    """Return a line about the end of a training: its trees, the reason, the best and the kept tree.

    Parameters
    ----------
    manifest
        The manifest of a model.

    Examples
    --------
    >>> from rankwright import Ranker, make_web_search
    >>> ranker = Ranker(n_estimators=3, verbose=0).fit(make_web_search(30, random_state=1))
    >>> ending_line(ranker.manifest_)
    'Training ended after 3 trees, as many as n_estimators allows.'
    """
    stopping, ending = manifest["stopping"], manifest["ending"]
    grown = f"ended after {ending['trees']} trees"
    if manifest["initial_trees"]:
        grown += f" on top of {manifest['initial_trees']}"
    reason = _REASONS[ending["reason"]].format(**ending)
    if stopping is None:
        parts = [f"Training {grown}{reason}.", _best(ending, manifest)]
    elif "folds" in stopping:
        # The folds decide how many trees the training on all queries grows.
        if ending["reason"] == "all":
            reason = ""
        kept = f"Kept over {stopping['folds']} folds: {_kept(stopping, manifest)}"
        parts = [kept, f"Training on all queries {grown}{reason}."]
    else:
        parts = [f"Training {grown}{reason}.", f"Kept: {_kept(stopping, manifest)}"]
    return " ".join(filter(None, [*parts, *_further_passes(manifest)]))


def _best(ending: Mapping[str, Any], manifest: Mapping[str, Any]) -> str:
    """Name the best tree if all trees are kept."""
    if ending["best_iteration"] is None:
        return ""
    metric = manifest["metrics"][0]
    if not ending["loss"]:
        return f"The last has the best {metric}."
    return (
        f"All are kept; tree {ending['best_iteration']} was {ending['loss']:.4f} better in {metric}. "
        "early_stopping_rounds keeps fewer, unless that is luck."
    )


def _kept(stopping: Mapping[str, Any], manifest: Mapping[str, Any]) -> str:
    """Name the tree that early stopping keeps, the best tree, and the choice of the other rule."""
    best, kept = stopping["best_iteration"], stopping["kept_iteration"]
    metric = manifest["metrics"][0]
    within = f"within {stopping['standard_errors']:g} standard errors"
    if stopping["standard_errors"] == 1:
        within = "within one standard error"
    if kept != best:
        text = (
            f"{kept}, the last {within} of the best, tree {best} "
            f"({stopping['difference']:.4f} ± {stopping['error']:.4f} in {metric})"
        )
    elif stopping["last_within_error"] > best:
        last = stopping["last_within_error"]
        text = f"{best}, the best in {metric}; the last {within} of it is tree {last}"
    else:
        text = f"{best}, the best in {metric}; no later tree is {within} of it"
    if stopping["rule"] != "best":
        text += f"; stopping_rule='best' would keep {stopping['kept_by_best']}"
    return f"{text}."


def _further_passes(manifest: Mapping[str, Any]) -> list[str]:
    """Describe the passes after the first: a refit and further members."""
    parameters, texts = manifest["parameters"], []
    if "refit" in manifest:
        texts.append(f"The refit on all queries has {manifest['refit']['trees']}.")
    elif parameters["refit"]:
        texts.append("The refit did not come to its end.")
    if "members" in manifest:
        members = manifest["members"]
        texts.append(
            f"This was the first of {len(members)} members, with {sum(members)} trees in all."
        )
    return texts
