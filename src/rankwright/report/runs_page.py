"""The report page on runs: its sections in their order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rankwright.data.dataset import RankingData
from rankwright.evaluation.systems import System
from rankwright.metrics import Metric
from rankwright.report.curves_section import learning_curves
from rankwright.report.manifest_section import manifest_tables
from rankwright.report.overview_section import overview
from rankwright.report.page import Page, Section
from rankwright.report.queries_section import kinds, queries
from rankwright.report.reasons import reasons_section
from rankwright.report.scored_runs import ScoredRuns, trained_runs
from rankwright.report.scores_section import calibration_section, scores
from rankwright.report.training_sections import bias_sections, features, times
from rankwright.runs import Run

_OF_TRAININGS = ("Learning curves", "Features", "Time", "Manifest")


def run_report(
    runs: Sequence[Run | System],
    data: RankingData,
    *,
    metrics: str | Metric | Iterable[str | Metric] | None = None,
    title: str | None = None,
    data_name: str = "test data",
) -> Page:
    """Report on one or more runs on test data; the first run is the baseline of the others.

    Parameters
    ----------
    runs
        Runs, as `Run.open` returns them, and systems such as ``rw.column("bm25")``.
    data
        Test data with the columns of the runs' training data.
    metrics
        Metrics; queries are compared by the first. By default the metrics of the runs' training, or ``ndcg@10`` and
        ``map`` without a run.
    title
        Title of the page; by default the names of the runs.
    data_name
        Name of the data on the page.

    Examples
    --------
    >>> import tempfile
    >>> from rankwright import make_web_search
    >>> from rankwright.runs import train_run
    >>> train, test = make_web_search(30, random_state=1).split(0.3)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     run = train_run(f"{folder}/first", train, parameters={"n_estimators": 3, "n_jobs": 1}, verbose=0)
    ...     page = run_report([run], test)
    >>> page.title, [section.title for section in page.sections][:2]
    ('first', ['Overview', 'Learning curves'])
    """
    if not runs:
        raise ValueError("a report needs at least one run.")
    scored = ScoredRuns.of(runs, data, metrics)
    if not len(scored.counted):
        raise ValueError(
            f"no query of {data_name} has a relevant document, so {scored.metrics[0]} has no "
            "value; check the labels."
        )
    by_number = trained_runs(runs)
    trained = list(by_number.values())
    sections = [
        Section("Overview", overview(scored, data_name)),
        Section("Learning curves", learning_curves(trained)),
        Section("Query by query", queries(scored)),
        *reasons_section(scored, by_number),
        Section("Kinds of queries", kinds(scored)),
        Section("Scores and ties", scores(scored)),
        *calibration_section(scored, by_number),
        Section("Features", features(trained)),
        *bias_sections(trained),
        Section("Time", times(trained)),
        Section("Manifest", manifest_tables(trained, data)),
    ]
    # Columns and fusions have no training to show.
    if not trained:
        sections = [section for section in sections if section.title not in _OF_TRAININGS]
    return Page(title or _title(scored.names), sections, f"on {data_name}")


def _title(names: Sequence[str]) -> str:
    if len(names) == 1:
        return names[0]
    if len(names) > 3:
        return f"{len(names)} runs"
    return f"{', '.join(names[:-1])} and {names[-1]}"
