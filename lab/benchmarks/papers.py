"""Add finished runs of the papers' experiments to benchmarks/results/papers.md, and to lab/records/papers.md.

    python benchmarks/papers.py [FOLDER] [--supersede EXPERIMENT ...]
    python benchmarks/papers.py FOLDER --keep-only

FOLDER holds the folders of runs, as `rankwright-lab reproduce --out FOLDER/NAME` and `benchmarks/extension.py` write
them. A run replaces the section of the same experiment and data, or follows the last section of its experiment;
with --supersede, sections of the named experiments on generated data of the same kind but another size are removed.
Without FOLDER only the tables of lab/records/papers.md are written anew.

Outcomes on generated data, of unfinished runs too, go to benchmarks/results/outcomes in a small form, a file for each
world; --keep-only does nothing else. `rankwright-lab reproduce --reuse benchmarks/results/outcomes` then trains only
what is missing there, so that a run of three worlds can be computed in several stretches and on several machines.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from rankwright.report.page import Page
from rankwright.support.files import replacing
from rankwright_lab.experiments import EXPERIMENTS, Record, read_records
from rankwright_lab.harness import Outcome, read_outcomes
from rankwright_lab.kept_outcomes import keep

KEPT = Path(__file__).parent / "results" / "outcomes"
GENERATED = ("generated", "world")  # how the names of generated data begin
PAGE = Path(__file__).parent / "results" / "papers.md"
SUMMARY = Path(__file__).parents[1] / "records" / "papers.md"
OUTCOMES = {
    "agrees": "agrees",
    "not significant": "open",
    "contradicts": "contradicted",
    "mixed": "mixed",
}
PAPERS = {
    "stochasticrank": "StochasticRank",
    "tricks": "Which Tricks (YetiRank, YetiLoss)",
    "xendcg": "XE-NDCG",
    "lambdaex": "Lambda-eX",
    "softrank": "Directness (SoftRank)",
}
# Experiment, pattern of the data's name, and claim. The first of DIAGNOSES that fits explains the verdict.
HEADLINES: tuple[tuple[str, str, str], ...] = (
    ("stochasticrank-table1", "the", "StochasticRank ends at 0.917"),
    ("stochasticrank-table1", "the", "E-LambdaMART, strength 0.3 ends at 0.903"),
    ("stochasticrank-table1", "the", "E-LambdaMART, strength 1 ends at 0.903"),
    ("stochasticrank-table3", "generated", "CCS above REINFORCE by ndcg@5"),
    ("stochasticrank-table3", "generated", "CCS + SFA above CCS by ndcg@5"),
    ("stochasticrank-table3", "generated", "CCS + SFA + SGLB above CCS + SFA by ndcg@5"),
    (
        "stochasticrank-table3",
        "generated",
        "CCS + SFA + SGLB + mu above CCS + SFA + SGLB by ndcg@5",
    ),
    (
        "stochasticrank-table3",
        "generated",
        "CCS + SFA + SGLB + mu, tied features above CCS + SFA + SGLB, tied features by ndcg@5",
    ),
    ("stochasticrank-table2", "generated", "SR-R1 above SoftRank by ndcg@5"),
    ("stochasticrank-table2", "generated", "SR-R1 above LambdaMART by ndcg@5"),
    ("stochasticrank-table2", "generated", "SR-R1 above E-LambdaLoss by ndcg@5"),
    ("stochasticrank-table2", "generated", "SR-R1 above LambdaMART by mrr"),
    ("stochasticrank-table2", "generated", "SR-R1 above E-LambdaMART by mrr"),
    ("tricks-table2", "generated", "YetiRank above YetiLoss by ndcg@10"),
    ("tricks-table2", "generated", "YetiRank above StochasticRank by ndcg@10"),
    ("tricks-table2", "generated", "YetiRank above LambdaMART by ndcg@10"),
    ("tricks-table2", "generated", "YetiRank above LambdaMART by mrr"),
    ("tricks-table2", "generated", "YetiLoss above LambdaMART by mrr"),
    ("tricks-table2", "generated", "YetiLoss above LambdaMART by map"),
    ("tricks-table2", "generated", "YetiLoss above YetiRank by map"),
    ("tricks-table2", "generated", "YetiLoss above QueryRMSE by map"),
    ("tricks-table3", "generated", "YetiLoss, logistic above YetiLoss, no smoothing by ndcg@10"),
    ("tricks-table4", "generated", "YetiRank above LightGBM by ndcg@10"),
    ("xendcg-table1", "generated", "XE-NDCG above LambdaMART by ndcg@5"),
    (
        "xendcg-clicks",
        "generated",
        "XE-NDCG, clicks at 0.05 above LambdaMART, clicks at 0.05 by ndcg@5",
    ),
    (
        "xendcg-clicks",
        "generated",
        "XE-NDCG, clicks at 0.15 above LambdaMART, clicks at 0.15 by ndcg@5",
    ),
    (
        "xendcg-clicks",
        "generated",
        "XE-NDCG, clicks at 0.25 above LambdaMART, clicks at 0.25 by ndcg@5",
    ),
    ("xendcg-robustness", "generated", "XE-NDCG loses less than LambdaMART with 80% negatives"),
    ("xendcg-robustness", "generated", "XE-NDCG loses less than LambdaMART with 40% random labels"),
    ("xendcg-robustness", "generated", "XE-NDCG loses less than LambdaMART with 80% random labels"),
    ("lambdaex-table5", "generated, sparse, 1500", "eX static above tau=k+3 by ndcg@5"),
    ("lambdaex-table5", "generated, sparse, 1500", "eX static above tau=k by ndcg@5"),
    ("lambdaex-table5", "generated, sparse, 1500", "eX random above tau=k+3 by ndcg@5"),
    ("lambdaex-table5", "generated, sparse, 1500", "eX all above tau=k+3 by ndcg@5"),
    ("lambdaex-table5", "generated, sparse, 1500", "tau=inf above tau=k+3 by ndcg@5"),
    ("lambdaex-table5", "generated, sparse, 1500", "eX random above tau=k+3 by ndcg@10"),
    ("lambdaex-table5", "generated, sparse, 1500", "eX static above tau=k+3 by ndcg@10"),
    ("lambdaex-table5", "generated, sparse, 1500", "eX static like tau=inf by ndcg@10"),
    ("lambdaex-table5", "generated, sparse, 1500.*LambdaLoss", "eX static above tau=k+3 by ndcg@5"),
    ("lambdaex-table5", "generated, sparse, 1500.*LambdaLoss", "eX random above tau=k+3 by ndcg@5"),
    (
        "lambdaex-figure3",
        "generated",
        "LambdaMART τ=k has more queries with harmful pairs than LambdaMART-eX static",
    ),
    (
        "lambdaex-table6",
        "generated",
        "the objective of LambdaMART τ=∞ takes longer than that of LambdaMART-eX static",
    ),
    (
        "softrank-directness",
        "generated",
        "the gap is below the bound of theorem 2 wherever its condition holds",
    ),
)
# Experiments in which the systems differ in the loss, its noise or its pairs alone: trees, rate and ridge are the same.
# A claim of theirs that agrees is the method's. In others parameters were chosen for each system.
_ALL_ELSE_EQUAL = r"stochasticrank-table1|tricks-smoothing|tricks-neighbours|tricks-table4|lambdaex-.*|softrank-.*"
# Patterns of the experiment, the data's name and the claims, and what explains their verdicts: a mechanism, and the
# experiment that shows it. "settling" is benchmarks/results/settling.md, "parts" stochasticrank_parts.md and "CatBoost"
# catboost_losses.md. "Method" stands only where everything else was held equal. Claims that agree need none, and open
# ones get one from their interval.
DIAGNOSES: tuple[tuple[str, str, str, str], ...] = (
    (
        "stochasticrank-table1",
        "the",
        "StochasticRank ends",
        "method; shared or independent leaf noise",
    ),
    (
        "stochasticrank-table1",
        "the",
        "E-Lambda(MART, strength 1|Loss)",
        "settings: noise escapes for some seeds",
    ),
    (
        "stochasticrank-table3",
        "generated",
        r"CCS \+ SFA \+ SGLB above",
        "luck of the searches: all else equal +0.05 [-0.10, +0.19] (parts)",
    ),
    (
        "stochasticrank-table3",
        "generated",
        r"CCS \+ SFA \+ SGLB \+ mu above",
        "range of mu: a third of it does harm; all else equal mu = 0.1 is +0.13 [-0.02, +0.29] (parts)",
    ),
    (
        "stochasticrank-table3",
        "generated",
        r"CCS \+ SFA \+ SGLB \+ mu, tied",
        "data: all five are within 1.1 points; all else equal mu = 0.1 is -0.02 [-0.10, +0.06] (parts)",
    ),
    (
        "stochasticrank-table3",
        "generated",
        ".*tied features",
        "luck of the searches: all else equal REINFORCE is 0.5 below CCS, Langevin noise +0.01 (parts)",
    ),
    (
        "stochasticrank-table2",
        "generated",
        "SR-R1 above SR-R1 soft by ndcg",
        "range of mu, of which a third does harm, and few trees: +0.4 with 1000 (parts)",
    ),
    (
        "stochasticrank-table2",
        "generated",
        "SR-R1 above LambdaMART by ndcg",
        "method: all else equal -1.9, in CatBoost -1.1; the paper's baseline may be its LambdaMart of the top alone, "
        "+0.4 (settling: ndcg)",
    ),
    (
        "stochasticrank-table2",
        "generated",
        "SR-R1 above E-LambdaLoss by ndcg",
        "method: all else equal -1.9 (settling: pairs); -1.6 with 1000 trees (parts)",
    ),
    (
        "stochasticrank-table2",
        "generated",
        "SR-R1, tied features above (LambdaLoss|E-Lambda.*), tied features by ndcg",
        "luck of the searches: all else equal +0.8 (LambdaLoss), +0.3 (E-LambdaMART) and -0.05 [-0.23, +0.14] "
        "(E-LambdaLoss) (settling: pairs)",
    ),
    (
        "stochasticrank-table2",
        "generated",
        "SR-R1 above E-LambdaMART by ndcg",
        "strength of E-LambdaMART's noise, which its search chose: all else equal +2.5 at 1 (settling: pairs)",
    ),
    (
        "stochasticrank-table2",
        "generated",
        "SR-R1 above LambdaLoss by ndcg",
        "method: all else equal -2.4 (settling: pairs)",
    ),
    ("tricks-table2", "generated", "YetiRank above StochasticRank", "StochasticRank is not tuned"),
    (
        "tricks-table2",
        "generated",
        "StochasticRank above LambdaMART by ndcg",
        "method: all else equal -1.9; -1.1 in CatBoost, +0.4 above its LambdaMart of the top (settling: ndcg)",
    ),
    ("tricks-table2", "generated", "StochasticRank above", "StochasticRank is not tuned"),
    (
        "tricks-table[24]",
        "generated",
        "YetiRank above LambdaMART by ndcg",
        "trees: our gradients are +1.65 on symmetric trees, +0.46 on leaf-wise ones, smaller worlds (settling: trees)",
    ),
    (
        "tricks-table[24]",
        "generated",
        "QueryRMSE above LambdaMART by ndcg",
        "trees: our gradients are +1.20 on symmetric trees, +0.25 on leaf-wise ones, smaller worlds (settling: trees)",
    ),
    (
        "tricks-table[24]",
        "generated",
        "YetiLoss above LambdaMART by map",
        "number of trees: +1.15 with up to 300 (CatBoost), +0.92 with 150 (settling: yetiloss); 1000 favour LambdaMART",
    ),
    (
        "tricks-table[24]",
        "generated",
        "YetiLoss above YetiRank by map",
        "method: all else equal -0.63, on sparse data -1.83 (settling: yetiloss); CatBoost's own -0.25 (CatBoost)",
    ),
    (
        "tricks-table[24]",
        "generated",
        "YetiLoss above YetiRank by mrr",
        "method: all else equal -2.08, on sparse data -4.31 (settling: yetiloss)",
    ),
    (
        "tricks-table4",
        "generated",
        "YetiLoss above QueryRMSE by mrr",
        "method, on these data: all else equal -2.05, but +1.55 [-0.36, +3.41] on sparse ones (settling: yetiloss)",
    ),
    (
        "tricks-table4",
        "generated",
        "YetiLoss above LambdaMART by err",
        "number of trees: all else equal +1.05 with up to 150 (settling: graded); 1000 favour LambdaMART",
    ),
    (
        "tricks-table4",
        "generated",
        "YetiLoss above QueryRMSE by err",
        "defaults: +0.16 [-0.09, +0.42] with up to 150 trees of equal leaves and ridge (settling: graded)",
    ),
    (
        "tricks-table4",
        "generated",
        "YetiRank above LightGBM",
        "each has its defaults; -3.36 with 100 trees",
    ),
    (
        "tricks-table3",
        "generated",
        "YetiLoss, logistic like",
        "width of the noise: +0.54 at strength 1, -0.39 [-0.82, +0.04] with Gaussian noise as wide (settling: noise)",
    ),
    (
        "tricks-neighbours",
        "mq2008",
        "YetiLoss, 2 like YetiLoss, 1 by err",
        "chance: in three worlds of 3000 test queries -0.20 [-0.44, +0.04] (settling: neighbours)",
    ),
    (
        "xendcg-clicks",
        "generated",
        "XE-NDCG, clicks at 0.05",
        "leaves chosen for each; -3.51 with 400 leaves",
    ),
    (
        "xendcg-clicks",
        "generated",
        "XE-NDCG, clicks at 0.15",
        "leaves chosen for each; -1.47, not significant, with 400 leaves",
    ),
    (
        "xendcg-clicks",
        "generated",
        "XE-NDCG, clicks at 0.25",
        "chance of the draws: from -2.9 to +4.1 points",
    ),
    (
        "xendcg-clicks",
        "generated",
        "XE-NDCG loses less",
        "chance of the draws: of either sign in nine of them",
    ),
    (
        "xendcg-robustness",
        "generated",
        "XE-NDCG loses less .* negatives",
        "data: below a point, with the paper's sign; -2.61 at 80 % earlier: one draw, LambdaMART for NDCG@5",
    ),
    (
        "xendcg-robustness",
        "generated",
        "XE-NDCG loses less .* 20% random labels",
        "data: half a point at most",
    ),
    (
        "xendcg-robustness",
        "generated",
        "XE-NDCG loses less .* 40% random labels",
        "method, against all pairs: -2.5 in LightGBM too with 750 queries, -0.7 with 3000; +0.5 and -0.9 against its "
        "normalised lambdarank (settling: random-labels)",
    ),
    (
        "xendcg-robustness",
        "generated",
        "XE-NDCG loses less .* [68]0% random labels",
        "method, against all pairs: at 80 % -1.5 in LightGBM too with 750 queries, -4.9 with 3000; +0.3 and +1.1 "
        "against its normalised lambdarank (settling: random-labels)",
    ),
    (
        "lambdaex-table5",
        ".*LambdaLoss",
        r"eX static above tau=k\+3 by ndcg@5",
        "data: half a point, where 0.6 would be significant; the other strategies are ahead",
    ),
    ("lambdaex-table5", ".*LambdaLoss", "eX static above", "method, in the paper's reading"),
    (
        "lambdaex-table5",
        "generated, sparse, 1500",
        "eX static above tau=k.* by ndcg@5",
        "method, in the paper's reading",
    ),
    (
        "lambdaex-table5",
        "generated, sparse, 1500",
        "eX static above tau=k.* by ndcg@10",
        "data: about 3 relevant documents a query, which the top 10 mostly holds; in the paper +0.06 on Istella-X",
    ),
    ("lambdaex-figure3", "generated", "LambdaMART τ=k has more", "method, in the paper's reading"),
)
_POINT = 1.0  # differences up to this are called small


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument(
        "--supersede", nargs="+", default=[], choices=list(EXPERIMENTS), metavar="EXPERIMENT"
    )
    parser.add_argument("--keep-only", action="store_true")
    args = parser.parse_args()
    if args.folder is not None:
        keep_outcomes(args.folder, KEPT)
    if args.keep_only:
        return
    head, *sections = re.split(r"^(?=## )", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    overview, sections = sections[0], sections[1:]
    for record in [] if args.folder is None else read_records(args.folder):
        new = text_of(record)
        if title(new)[0] in args.supersede:
            sections = [
                section for section in sections if not superseded(title(section), title(new))
            ]
        sections = inserted(sections, new)
    with replacing(PAGE) as file:
        file.write(
            (head + counted(overview, sections) + "".join(sections)).rstrip("\n").encode() + b"\n"
        )
    text = SUMMARY.read_text(encoding="utf-8")
    for mark, rows in summary_tables(sections).items():
        pattern = rf"(<!-- {re.escape(mark)} -->\n\n)(?:\|.*\n)*\n*"
        text, found = re.subn(pattern, lambda match, rows=rows: f"{match[1]}{rows}\n", text)
        if found != 1:
            raise ValueError(
                f"lab/records/papers.md must have the mark {mark!r} once; it has it {found} times."
            )
    with replacing(SUMMARY) as file:
        file.write(recounted(text, sections).encode())


def keep_outcomes(folder: Path, kept: Path) -> None:
    """Add the outcomes of all runs in a folder on generated data to the kept ones, a file for each world."""
    worlds: dict[str, list[Outcome]] = {}
    for path in sorted(folder.rglob("outcomes.jsonl")):
        for outcome in read_outcomes(path):
            if outcome.data.startswith(GENERATED):
                name = re.sub(r"[^a-z0-9]+", "-", f"{outcome.data} {outcome.fold}".lower()).strip(
                    "-"
                )
                worlds.setdefault(name, []).append(outcome)
    for name, outcomes in worlds.items():
        kept.mkdir(parents=True, exist_ok=True)
        keep(outcomes, kept / f"{name}.jsonl.gz")


def superseded(old: tuple[str, str], new: tuple[str, str]) -> bool:
    """Whether a section, by experiment and data, is on generated data of the same kind as another but of other size."""
    kinds = [re.match(r"generated, \w+", data) for _, data in (old, new)]
    return old != new and old[0] == new[0] and None not in kinds and kinds[0][0] == kinds[1][0]  # type: ignore[index]


def summary_tables(sections: list[str]) -> dict[str, str]:
    """Return the tables of lab/records/papers.md by the marks that they follow."""
    totals = {name: [0] * len(OUTCOMES) for name in PAPERS}
    against: list[list[str]] = []
    for section in sections:
        experiment, data = title(section)
        for outcome, claim, evidence in claims(section):
            totals[experiment.partition("-")[0]][list(OUTCOMES).index(outcome)] += 1
            if outcome == "contradicts":
                why = diagnosis(experiment, data, outcome, claim, evidence)
                against.append([experiment, data.partition(",")[0], claim, short(evidence), why])
    rows = [[PAPERS[name], *map(str, counts)] for name, counts in totals.items()]
    tables = {
        "papers.md": table(
            ["paper", "agree", "not significant", "contradicted", "mixed"], rows, "--:"
        ),
        "contradicted": table(
            ["experiment", "data", "claim", "difference, points", "why"], against, "---"
        ),
    }
    for name in PAPERS:
        own = [headline(sections, *line) for line in HEADLINES if line[0].partition("-")[0] == name]
        tables[f"headlines: {name}"] = table(["claim", "here", "verdict", "why"], own, "---")
    return tables


def recounted(text: str, sections: list[str]) -> str:
    """Return lab/records/papers.md with the totals in its sentences and in the row "after" written anew."""
    verdicts = [(title(section)[1], row[0]) for section in sections for row in claims(section)]
    agree, undecided, against, mixed = (
        sum(found == outcome for _, found in verdicts) for outcome in OUTCOMES
    )
    small = sum(data == "mq2008" and found == "not significant" for data, found in verdicts)
    sentences = {
        r"Of \d+ tests of a claim on a data set, .* hold": f"Of {len(verdicts)} tests of a claim on a data set, "
        f"{agree} agree with the paper, {undecided} are not significant, {against} contradict it and {mixed} hold",
        r"\| after \|.*\|": f"| after | {len(verdicts)} | {agree} | {undecided} | {against} | {mixed} |",
        r"Of the open claims \d+ are": f"Of the open claims {small} are",
    }
    for pattern, sentence in sentences.items():
        text, found = re.subn(pattern, sentence, text)
        if found != 1:
            raise ValueError(
                f"lab/records/papers.md must have {pattern!r} once; it has it {found} times."
            )
    return text


def headline(sections: list[str], experiment: str, data: str, claim: str) -> list[str]:
    """Return a row: the claim, its figure and interval, the verdict, and the diagnosis."""
    for section in sections:
        name, place = title(section)
        if name == experiment and re.match(data, place):
            for outcome, text, evidence in claims(section):
                if text == claim:
                    why = diagnosis(experiment, place, outcome, claim, evidence)
                    loss = "NDCG-Loss2++: " if "LambdaLoss" in place else ""
                    return [loss + claim, short(evidence), OUTCOMES[outcome], why]
    raise ValueError(
        f"papers.md has no claim {claim!r} of {experiment} on data whose name begins with {data!r}."
    )


def diagnosis(experiment: str, data: str, outcome: str, claim: str, evidence: str) -> str:
    """Say what explains a verdict: what DIAGNOSES has, or else what the interval says of an open claim."""
    for name, place, pattern, why in DIAGNOSES:
        if re.fullmatch(name, experiment) and re.match(place, data) and re.match(pattern, claim):
            return why
    if outcome == "agrees":
        if re.fullmatch(_ALL_ELSE_EQUAL, experiment):
            return "method"
        return "parameters chosen for each"
    interval = re.search(r"\[([-+.\d]+), ([-+.\d]+)\]", evidence)
    if outcome != "not significant" or interval is None:
        raise ValueError(
            f"DIAGNOSES has none for {claim!r} of {experiment} on {data}, which is {OUTCOMES[outcome]}."
        )
    largest = max(abs(float(bound)) for bound in interval.groups())
    if largest <= _POINT:
        return "data: no difference of a point here"
    return f"data too small: up to {largest:.1f} points are possible"


def short(evidence: str) -> str:
    """Return the figure and interval of a piece of evidence."""
    return evidence.partition(", p ")[0].replace(" points", "")


def table(columns: list[str], rows: list[list[str]], align: str) -> str:
    """Return a table; ``align`` is for all columns but the first."""
    head, *body = ("| " + " | ".join(row) + " |\n" for row in [columns, *rows])
    return f"{head}|---|{'|'.join([align] * (len(columns) - 1))}|\n{''.join(body)}"


def text_of(record: Record) -> str:
    markdown = Page("", [record.section()], "").markdown()
    return markdown[markdown.index("## ") :].rstrip("\n") + "\n\n"


def title(section: str) -> tuple[str, str]:
    """Experiment and data of a section."""
    found = re.match(
        r"## ([\w-]+): .*?\(((?:generated|the paper|mq2008|[^()]*)[^()]*)\)\n", section
    )
    if found is None:
        raise ValueError(
            f"a section of papers.md has no experiment and data in its title: {section[:80]!r}"
        )
    return found[1], found[2]


def inserted(sections: list[str], new: str) -> list[str]:
    """Replace the section of the same experiment and data, or insert it in the order of the experiments."""
    places = [title(section) for section in sections]
    if title(new) in places:
        number = places.index(title(new))
        return [*sections[:number], new, *sections[number + 1 :]]
    order = list(EXPERIMENTS)
    own = order.index(title(new)[0])
    after = sum(order.index(experiment) <= own for experiment, _ in places)
    return [*sections[:after], new, *sections[after:]]


def claims(section: str) -> list[list[str]]:
    """Rows of the table of claims: here, claim, evidence."""
    table = section.partition("| here | claim | evidence |\n")[2].split("\n\n")[0]
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()[1:]]


def counted(overview: str, sections: list[str]) -> str:
    """Return the overview with its tables written anew."""
    rows, against, undecided = [], [], []
    for section in sections:
        experiment, data = title(section)
        found = claims(section)
        counts = [sum(row[0] == outcome for row in found) for outcome in OUTCOMES]
        rows.append([experiment, data, *map(str, counts)])
        for outcome, claim, evidence in found:
            if outcome != "agrees":
                why = diagnosis(experiment, data, outcome, claim, evidence)
                (against if outcome == "contradicts" else undecided).append(
                    [experiment, data, claim, evidence, why]
                )
    intro = overview.partition("| experiment |")[0]
    columns = ["experiment", "data", "claim", "evidence", "why"]
    counts_table = table(
        ["experiment", "data", "claims that agree", "not significant", "contradicted", "mixed"],
        rows,
        "--:",
    )
    return (
        f"{intro}{counts_table}\n**Contradicted**\n\n{table(columns, against, '---')}\n"
        f"**Open or mixed**\n\n{table(columns, undecided, '---')}\n"
    )


if __name__ == "__main__":
    main()
