// Shows why one document of a query is above another: differences of contributions as bars, the others as one sum.
"use strict";

for (const root of document.querySelectorAll(".reasons")) {
  const part = (name) => root.querySelector(`.${name}`);
  const { names, queries } = JSON.parse(part("reasons-data").textContent);
  const signed = (value) => (value < 0 ? "\u2212" : "+") + Math.abs(value).toFixed(4);
  const cell = (text, name) => {
    const node = document.createElement("td");
    node.textContent = text;
    if (name) node.className = name;
    return node;
  };
  const options = (select, texts, chosen) =>
    select.replaceChildren(
      ...texts.map((text, value) => {
        const option = document.createElement("option");
        option.textContent = text;
        option.value = value;
        option.selected = value === chosen;
        return option;
      })
    );
  const value = (name) => Number(part(name).value);
  const ranking = () => queries[value("query")].runs[value("system")];
  const shown = (number) => (number === null ? "missing" : String(number));

  function offerDocuments() {
    const { documents, labels, scores } = ranking();
    const [a, b] = queries[value("query")].pairs[value("system")];
    const texts = documents.map((name, place) => `${place + 1}. ${name}, label ${labels[place]}, score ${scores[place].toPrecision(5)}`);
    options(part("above"), texts, a);
    options(part("below"), texts, b);
    explain();
  }

  function explain() {
    const { documents, features, contributions, values, scores } = ranking();
    const [a, b] = [value("above"), value("below")];
    const total = scores[a] - scores[b];
    const rows = features.map((feature, place) => ({
      name: names[feature],
      first: shown(values[a][place]),
      second: shown(values[b][place]),
      difference: contributions[a][place] - contributions[b][place],
    }));
    rows.sort((p, q) => Math.abs(q.difference) - Math.abs(p.difference));
    const rest = total - rows.reduce((sum, row) => sum + row.difference, 0);
    rows.push({ name: "all others", first: "", second: "", difference: rest });
    const widest = Math.max(...rows.map((row) => Math.abs(row.difference))) || 1;
    root.querySelector("th.first").textContent = documents[a];
    root.querySelector("th.second").textContent = documents[b];
    part("bars").tBodies[0].replaceChildren(
      ...rows.map((row) => {
        const line = document.createElement("tr");
        const bar = cell("", "bar");
        const length = document.createElement("span");
        length.className = row.difference < 0 ? "against" : "for";
        length.style.setProperty("--share", `${(50 * Math.abs(row.difference)) / widest}%`);
        bar.append(length);
        bar.setAttribute("aria-hidden", "true");
        line.append(cell(row.name), cell(row.first, "number"), cell(row.second, "number"), cell(signed(row.difference), "number"), bar);
        return line;
      })
    );
    part("explained").textContent =
      a === b
        ? "Choose two different documents."
        : `Score of ${documents[a]}: ${scores[a].toPrecision(5)}. Score of ${documents[b]}: ${scores[b].toPrecision(5)}. That is ` +
          `a difference of ${signed(total)}, which the rows add up to.`;
  }

  options(part("query"), queries.map((query) => `${query.query} ${query.text}`.trimEnd()), 0);
  for (const name of ["system", "query"]) part(name).addEventListener("change", offerDocuments);
  for (const name of ["above", "below"]) part(name).addEventListener("change", explain);
  offerDocuments();
}
