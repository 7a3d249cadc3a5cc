"""The command line: adapters on the public names, which are imported where they are used."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

app = typer.Typer(
    help="Train and evaluate rankers that optimise the ranking metric itself.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


@app.command()
def demo(
    queries: Annotated[int, typer.Option(help="Number of synthetic queries.", min=20)] = 400,
    trees: Annotated[int, typer.Option(help="Trees per model.", min=1)] = 150,
    seed: Annotated[int, typer.Option(help="Seed of the data and of the models.")] = 0,
) -> None:
    """Train four rankers on synthetic search data and compare them on held-out queries.

    Example: rankwright demo --queries 400 --trees 150
    """
    from rich.console import Console

    import rankwright as rw

    console = Console()
    console.print(f"Making {queries} synthetic web-search queries (136 features, labels 0-4) ...")
    train, test = rw.make_web_search(queries, seed=seed).split(0.3, seed=seed)
    metrics = ["ndcg@10", "map", "mrr", "err"]
    systems: dict[str, dict[str, Any]] = {
        "lambdamart": {"objective": "lambdamart(truncation=13, normalize=True)"},
        "yetirank": {"objective": "yetirank"},
        "yetiloss + queryrmse": {"objective": "yetiloss(neighbours=3) + 0.5 n^-0.5 queryrmse", "leaf_values": "full"},
        "stochasticrank": {"objective": "stochasticrank", "learning_rate": 1.0},
    }
    results = []
    for name, options in systems.items():
        ranker = rw.Ranker(metric="ndcg@10", n_estimators=trees, random_state=seed, **options)
        ranker.fit(train)
        result = rw.evaluate(ranker.predict(test), test.y, group=test.group, metrics=metrics)
        results.append(result)
        console.print(f"{name:22s}" + "".join(f"  {m} {result.mean[m]:.4f}" for m in metrics), highlight=False)
    console.print("\nAgainst lambdamart, on the same test queries:\n")
    comparison = rw.compare(*results, names=list(systems), metrics=["ndcg@10", "map"], seed=seed)
    console.print(str(comparison), highlight=False, soft_wrap=True)
    console.print("\nNext: rankwright.Ranker(metric='map').fit(X, y, qid=qid) on your own data; see the README.")


@app.command()
def evaluate(
    run: Annotated[Path, typer.Argument(help="Run file in TREC form: qid Q0 docno rank score tag.")],
    qrels: Annotated[Path, typer.Argument(help="Judgements in TREC form: qid 0 docno label.")],
    metrics: Annotated[str, typer.Option(help="Metrics, separated by blanks.")] = "ndcg@10 map mrr",
    ties: Annotated[str, typer.Option(help="worst, best, expected or input.")] = "worst",
) -> None:
    """Evaluate a run file against judgements.

    Example: rankwright evaluate run.txt qrels.txt --metrics "ndcg@10 err(gain=linear)@5" --ties expected
    """
    import rankwright as rw

    try:
        scores, labels, qid = rw.align(rw.read_trec_run(run), rw.read_qrels(qrels))
        result = rw.evaluate(scores, labels, qid=qid, metrics=metrics.split(), ties=ties)
    except (ValueError, OSError) as error:
        typer.echo(f"rankwright: {error}", err=True)
        raise typer.Exit(1) from None
    typer.echo(str(result))
