"""Tables of a fitted Ranker for notebooks: metrics, chosen settings, and important columns."""

from __future__ import annotations

from typing import Any

import numpy as np

from rankwright.support.tables import Table
from rankwright.training.ending import ending_line

# Number of the most important columns to show.
_COLUMNS = 10


def fitted_html(ranker: Any) -> str:
    """Return tables of a fitted Ranker in HTML.

    They show the texts of the manifest, so classes of metrics and objectives need not be defined.
    """
    manifest, model = ranker.manifest_, ranker.model_
    last = ranker._evaluated_iteration - 1
    values = []
    for data, curves in ranker.evals_result_.items():
        for name, curve in curves.items():
            if 0 <= last < len(curve):
                values.append([data, name, f"{curve[last]:.4f}"])
    settings = {
        "trees": str(model.n_trees),
        "metric": ", ".join(manifest["metrics"]),
        "objective": manifest["objective"],
    }
    for name, value in manifest["chosen"].items():
        if name != "learning_rates":
            settings[name] = _text(value)
    settings["end"] = ending_line(manifest)
    settings["seconds"] = f"{sum(ranker.times_.values()):.1f}"
    shares = model.importances()
    order = np.argsort(-shares, kind="stable")[:_COLUMNS]
    columns = [[model.feature_names[i], f"{shares[i]:.1%}"] for i in order]
    note = f"{len(shares)} columns." if len(shares) > _COLUMNS else ""
    tables = [
        Table("", ["setting", "value"], list(settings.items())),
        Table("", ["column", "share of the gain"], columns, note),
    ]
    if values:
        tables.insert(0, Table("", ["evaluation set", "metric", "value"], values))
    inner = "".join(
        f'<div style="margin-right:2em">{table._repr_html_()}</div>' for table in tables
    )
    return f'<div style="display:flex;flex-wrap:wrap;align-items:flex-start">{inner}</div>'


def _text(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
