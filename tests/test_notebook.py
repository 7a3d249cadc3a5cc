"""A notebook: a training shows one live bar, and fitted objects show as tables."""

from __future__ import annotations

import nbclient
import nbformat
import pytest

CELLS = [
    "import rankwright as rw\ntrain, valid = rw.make_web_search(30, random_state=1).split(0.3)",
    "ranker = rw.Ranker(n_estimators=12, n_jobs=1).fit(train, eval_set=[valid]); None",
    "ranker",
    "rw.evaluate(ranker.predict(valid), valid.y, qid=valid.qid)",
    "rw.plot_curves(ranker)",
]


@pytest.fixture(scope="module")
def cells() -> list[list[dict]]:  # type: ignore[type-arg]
    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(source) for source in CELLS]
    )
    nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    return [cell.outputs for cell in notebook.cells]


def test_a_training_shows_one_bar_in_its_final_state(cells: list[list[dict]]) -> None:  # type: ignore[type-arg]
    shown = [output for output in cells[1] if output["output_type"] == "display_data"]
    bars = [output for output in shown if "<progress" in output["data"]["text/html"]]
    assert len(bars) == 1
    page = bars[0]["data"]["text/html"]
    assert '<progress max="12" value="12"' in page
    assert "12/12 trees, ndcg@10 0." in page
    assert "0:00 left" in page
    assert not any("trees/s" in output.get("text", "") for output in cells[1])  # no lines beside it


def test_fitted_objects_show_as_tables_and_charts(cells: list[list[dict]]) -> None:  # type: ignore[type-arg]
    for number, text in ((2, "valid_0"), (3, "ndcg@10")):
        assert text in cells[number][-1]["data"]["text/html"]
    assert "vega-lite" in cells[4][-1]["data"]["text/html"]
