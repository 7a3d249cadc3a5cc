// Compares two chosen systems by a chosen metric: draws the two charts, fills the list of queries and both rankings.
"use strict";

for (const root of document.querySelectorAll(".explorer")) {
  const part = (name) => root.querySelector(`.${name}`);
  const { systems, metrics, rankings, names, top } = JSON.parse(part("explorer-data").textContent);
  const boxes = { scatter: part("scatter").querySelector(".chart"), histogram: part("histogram").querySelector(".chart") };
  const specs = { scatter: page.data(boxes.scatter), histogram: page.data(boxes.histogram) };
  const points = specs.scatter.datasets.points;
  const queries = points.filter((point) => point.ranking >= 0);
  let [first, second, metric, picked] = [0, 1, 0, -1];
  const views = {};

  const metricName = () => metrics[metric].name;
  const valued = (point) => point.values[metric][first] !== null;
  const difference = (point) => point.values[metric][second] - point.values[metric][first];
  const signed = (value) => (value < 0 ? "\u2212" : "+") + Math.abs(value).toFixed(4);
  const element = (tag, text, name) => {
    const node = document.createElement(tag);
    node.textContent = text;
    if (name) node.className = name;
    return node;
  };
  const colour = (system) => `var(--series-${(system % 8) + 1})`;

  async function drawPair() {
    const { better, ends, widest } = metrics[metric];
    const changed = { first, second, metric, better, picked };
    for (const spec of Object.values(specs)) {
      for (const param of spec.params) if (param.name in changed) param.value = changed[param.name];
    }
    for (const layer of specs.scatter.layer) {
      layer.encoding.x.title = `${metricName()}, ${systems[first]}`;
      layer.encoding.y.title = `${metricName()}, ${systems[second]}`;
      for (const axis of ["x", "y"]) layer.encoding[axis].scale.domain = ends;
      for (const line of layer.encoding.tooltip ?? []) {
        if (line.field === "x") line.title = systems[first];
        if (line.field === "y") line.title = systems[second];
      }
    }
    specs.histogram.encoding.x.title = `${metricName()}, ${systems[second]} minus ${systems[first]}`;
    specs.histogram.encoding.x.scale.domain = [-1.05 * widest, 1.05 * widest];
    part("scatter").querySelector("figcaption").textContent = `${metricName()} of each query`;
    part("histogram").querySelector("figcaption").textContent = `Differences in ${metricName()}`;
    for (const name of ["scatter", "histogram"]) views[name] = await page.draw(boxes[name], specs[name]);
    views.scatter?.addEventListener("click", (event, item) => {
      if (item && item.datum && item.datum.ranking >= 0) pick(item.datum.ranking);
    });
  }

  function summarise() {
    const pair = specs.histogram.datasets.pairs.find(
      (candidate) =>
        candidate.metric === metric && candidate.first === Math.min(first, second) && candidate.second === Math.max(first, second)
    );
    const [larger, smaller] = first < second ? [pair.larger, pair.smaller] : [pair.smaller, pair.larger];
    const total = pair.queries.reduce((sum, count) => sum + count, 0);
    part("summary").textContent =
      `${metricName()} of ${systems[second]} is larger than ${metricName()} of ${systems[first]} on ${larger} queries, smaller on ` +
      `${smaller} and the same on ${total - larger - smaller}.`;
  }

  const orders = {
    change: (p, q) => Math.abs(difference(q)) - Math.abs(difference(p)),
    gain: (p, q) => difference(q) - difference(p),
    loss: (p, q) => difference(p) - difference(q),
    id: (p, q) => p.query.localeCompare(q.query, undefined, { numeric: true }),
  };

  function list() {
    const wanted = part("find").value.trim().toLowerCase();
    const shown = queries.filter((point) => valued(point) && `${point.query} ${point.text ?? ""}`.toLowerCase().includes(wanted)).sort(orders[part("order").value]);
    part("queries").replaceChildren(
      ...shown.map((point) => {
        const option = element("option", `${point.query}   ${signed(difference(point))}   ${point.text ?? ""}`.trimEnd());
        option.value = point.ranking;
        option.selected = point.ranking === picked;
        return option;
      })
    );
    return shown;
  }

  function fill(name, system, other, ranking) {
    const table = root.querySelector(`.ranking.${name}`);
    const value = points.find((point) => point.ranking === picked).values[metric][system];
    const caption = table.querySelector("caption");
    caption.replaceChildren(element("b", systems[system]), element("span", value === null ? "" : `${metricName()} ${value.toFixed(4)}`));
    caption.style.borderColor = colour(system);
    const [documents, labels, scores] = ranking[system];
    table.tBodies[0].replaceChildren(
      ...documents.map((document_, place) => {
        const row = document.createElement("tr");
        row.dataset.document = document_;
        const label = element("td", "", "label");
        const chip = element("span", labels[place]);
        chip.style.setProperty("--share", `${Math.round((60 * labels[place]) / top)}%`);
        label.append(chip);
        const there = ranking[other][0].indexOf(document_);
        row.append(
          element("td", place + 1, "number"),
          element("td", names[picked][document_] ?? document_, names[picked][document_] ? "" : "number"),
          label,
          element("td", scores[place].toPrecision(5), "number"),
          element("td", there < 0 ? "\u2013" : there + 1, "number there")
        );
        return row;
      })
    );
  }

  function pick(ranking) {
    picked = ranking;
    const point = points.find((candidate) => candidate.ranking === ranking);
    const text = point.text ? ` \u201c${point.text}\u201d` : "";
    part("title").textContent = `Query ${point.query}${text}: ${point.documents} documents, ${point.relevant} relevant`;
    fill("first", first, second, rankings[ranking]);
    fill("second", second, first, rankings[ranking]);
    for (const option of part("queries").options) option.selected = Number(option.value) === ranking;
    views.scatter?.signal("picked", ranking).runAsync();
  }

  function choose(changed) {
    metric = Number(part("metric").value);
    [first, second] = [Number(part("first").value), Number(part("second").value)];
    if (first === second) {
      // Two equal choices compare nothing: advance the other one.
      const other = changed === "first" ? "second" : "first";
      part(other).value = String((first + 1) % systems.length);
      [first, second] = [Number(part("first").value), Number(part("second").value)];
    }
    summarise();
    const shown = list();
    pick(picked < 0 ? (shown[0] ?? queries[0]).ranking : picked);
    return drawPair();
  }

  for (const name of ["first", "second", "metric"]) part(name).addEventListener("change", () => choose(name));
  for (const name of ["find", "order"]) part(name).addEventListener("input", list);
  part("queries").addEventListener("change", (event) => pick(Number(event.target.value)));
  part("rankings").addEventListener("pointerover", (event) => {
    const row = event.target.closest("tr[data-document]");
    for (const other of root.querySelectorAll("tr[data-document]")) {
      other.classList.toggle("same", Boolean(row) && other.dataset.document === row.dataset.document);
    }
  });
  choose("second");
}
