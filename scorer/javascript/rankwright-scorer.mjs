// Scores documents with the file of `rankwright export --to json`.
//
//     node rankwright-scorer.mjs model.json < rows.json
//
// rows.json has an array of rows, and null for a missing value. The scores are printed one per line.

import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const FORMAT = "rankwright-trees";
const VERSION = 1;

export class Scorer {
  constructor(text) {
    const model = JSON.parse(text);
    if (model.format !== FORMAT || model.version !== VERSION) {
      throw new Error(`the file is not of the form ${FORMAT}, version ${VERSION}; export it again.`);
    }
    this.features = model.features;
    this.zero = model.zero;
    this.trees = model.trees.map((tree) => ({
      ...tree,
      // Infinite thresholds are texts in the file.
      threshold: tree.threshold.map(Number),
      categories: tree.categories.map((codes) => new Set(codes)),
    }));
  }

  // Returns the score of a document: an array of numbers in the order of `features`, NaN if missing.
  score(row) {
    if (row.length !== this.features.length) {
      throw new Error(`a row has ${row.length} values for ${this.features.length} features.`);
    }
    // Sums depend on the order, so the trees are added one after the other.
    let sum = 0;
    for (const tree of this.trees) {
      let node = tree.feature.length > 0 ? 0 : -1;
      while (node >= 0) {
        node = this.#goesLeft(tree, node, row) ? tree.left[node] : tree.right[node];
      }
      sum += tree.value[-1 - node];
    }
    return sum;
  }

  #goesLeft(tree, node, row) {
    let x = row[tree.feature[node]];
    const missing = tree.missing[node];
    const decision = tree.decision[node];
    if (Number.isNaN(x)) {
      if (missing !== "as_zero") return tree.default_left[node];
      x = 0;
    } else if (decision === "at_most" && Math.abs(x) <= this.zero) {
      if (missing === "zero_to_default") return tree.default_left[node];
      x = 0;
    }
    if (decision === "at_most") return x <= tree.threshold[node];
    if (decision === "below") return Math.fround(x) < Math.fround(tree.threshold[node]);
    return tree.categories[node].has(Math.trunc(x));
  }
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) {
  const scorer = new Scorer(readFileSync(process.argv[2], "utf8"));
  const rows = JSON.parse(readFileSync(0, "utf8"));
  const scores = rows.map((row) => scorer.score(row.map((x) => (x === null ? NaN : x))));
  process.stdout.write(scores.map((score) => `${score}\n`).join(""));
}
