// The charts of the other sections: scores, vectors, positions, activations.

function layerSelect(box, first, names, change) {
  const id = `select-${box.id}`;
  const select = build("select", { id }, ...names.map((name, place) => build("option", { value: place }, name)));
  box.append(build("div", { class: "controls" }, build("label", { for: id }, first), select));
  select.addEventListener("change", () => change(Number(select.value)));
  return select;
}

function scoreSection(box) {
  const { edges, factor, layers } = data.scores;
  const chart = build("div", {});
  const sentence = build("p", {});
  const sum = (name) => layers[0][name].map((_, bin) => layers.reduce((total, one) => total + one[name][bin], 0));
  const mean = (name) => layers.reduce((total, one) => total + one[name], 0) / layers.length;
  const names = ["raw_spread", "scaled_spread", "raw_peak", "scaled_peak"];
  const all = { counts: sum("counts"), ...Object.fromEntries(names.map((name) => [name, mean(name)])) };
  const steps = (counts, by) => {
    const x = [], y = [];
    counts.forEach((count, bin) => { x.push(edges[bin] * by, edges[bin + 1] * by); y.push(count, count); });
    return { x: [x[0], ...x, x[x.length - 1]], y: [0, ...y, 0], isArea: true };
  };
  function show(place) {
    const one = place ? layers[place - 1] : all;
    chart.replaceChildren();
    lineChart(chart, { series: [{ name: "before scaling: Q Kᵀ", ...steps(one.counts, 1) }, { name: "after scaling: Q Kᵀ / √H", ...steps(one.counts, factor) }],
      xLabel: "score", yLabel: "count (log scale)", label: "Histograms of the attention scores before and after scaling", isLog: true });
    sentence.textContent = `Standard deviation: ${one.raw_spread.toFixed(2)} before and ${one.scaled_spread.toFixed(2)} after scaling. Largest attention probability of a query, on average: ` +
      `${one.scaled_peak.toFixed(2)}; without scaling it would be ${one.raw_peak.toFixed(2)}. The closer it is to 1, the smaller the gradient of the softmax.`;
  }
  layerSelect(box, "Layer", ["all layers", ...layers.map((_, layer) => `layer ${layer}`)], show);
  box.append(chart, sentence);
  show(0);
}

function vectorSection(box) {
  const { to_previous: toPrevious, means, between } = data.similarity;
  const states = ["embeddings", ...toPrevious.map((_, layer) => `after layer ${layer}`)];
  const [left, right] = [build("div", {}), build("div", {})];
  const turned = build("div", {});
  box.append(turned, build("div", { class: "side-by-side" }, left, right));
  turned.append(build("h3", {}, "Change of each token’s vector per layer"));
  const lowest = Math.min(...toPrevious.flat());
  heatMap(turned, { rows: toPrevious.map((_, layer) => `layer ${layer}`), columns: tokens, rowLabel: "", columnLabel: "", fill: 1000,
    value: (row, column) => toPrevious[row][column], intensity: (value) => (1 - value) / Math.max(1 - lowest, 1e-6),
    describe: (row, column, value) => `${isolated(tokens[column])} (${column}) in layer ${row}: cosine of the vectors before and after ${number(value)}`,
    label: "Cosine of each token's vectors before and after each layer" });
  colorKey(turned, "cosine", ["1", number((1 + lowest) / 2, 2), number(lowest, 2)]);
  left.append(build("h3", {}, "Average over all tokens"));
  const x = states.map((_, state) => state);
  lineChart(left, { series: [
    { name: "before and after the layer", x: x.slice(1), y: means.to_previous }, { name: "to the embedding", x: x.slice(1), y: means.to_embeddings },
    { name: "two different tokens", x, y: means.anisotropy, dashed: true }],
  xLabel: "state (0 = embeddings)", yLabel: "mean cosine", whole: true, label: "Mean cosines by state" });
  right.append(build("h3", {}, "Similarity of all pairs of tokens"));
  const cosines = decoded(between);
  let state = states.length - 1;
  const place = build("div", {});
  right.id = "alike";
  const select = layerSelect(right, "State", states, (one) => { state = one; draw(); });
  select.value = state;
  right.append(place);
  const draw = heatMap(place, { rows: tokens, columns: tokens, rowLabel: "", columnLabel: "", fill: 420, ramp: "diverging",
    value: (row, column) => (cosines[(state * shown + row) * shown + column] / 255) * 2 - 1, intensity: (value) => (value + 1) / 2,
    describe: (row, column, value) => `${isolated(tokens[row])} (${row}) and ${isolated(tokens[column])} (${column}): cosine ${number(value, 2)}`, label: "Cosines of all pairs of tokens" });
  colorKey(right, "cosine", ["-1", "0", "1"], "diverging");
}

function positionSection(box) {
  const { shown: numShown, tables } = data.positions;
  const names = Array.from({ length: numShown }, (_, position) => String(position));
  const distances = tables[0].by_distance.map((_, distance) => distance);
  const grid = build("div", { class: "side-by-side" });
  box.append(grid);
  for (const table of tables) {
    const cell = build("div", {}, build("h3", {}, table.name));
    grid.append(cell);
    const cosines = decoded(table.cosines);
    heatMap(cell, { rows: names, columns: names, rowLabel: "position", columnLabel: "position", fill: 300, ramp: "diverging",
      value: (row, column) => (cosines[row * numShown + column] / 255) * 2 - 1, intensity: (value) => (value + 1) / 2,
      describe: (row, column, value) => `positions ${names[row]} and ${names[column]}: cosine ${number(value, 2)}`, label: `Cosines of ${table.name} positions` });
  }
  const lines = build("div", {}, build("h3", {}, "Similarity by distance"));
  grid.append(lines);
  lineChart(lines, { series: tables.map((table) => ({ name: table.name, x: distances, y: table.by_distance })), xLabel: "distance (positions)", yLabel: "mean cosine",
    whole: true, label: "Mean cosine of two positions by distance" });
  colorKey(box, "cosine", ["-1", "0", "1"], "diverging");
}

function activationSection(box) {
  const { x, curves, difference } = data.activations;
  const [left, right] = [build("div", {}, build("h3", {}, "Functions")), build("div", {}, build("h3", {}, "GELU minus its tanh approximation"))];
  box.append(build("div", { class: "side-by-side" }, left, right));
  lineChart(left, { series: curves.map(({ name, values }) => ({ name, x, y: values, dashed: name.startsWith("gelu_tanh") })), xLabel: "x", yLabel: "activation", label: "Activation functions" });
  lineChart(right, { series: [{ name: "gelu - gelu_tanh", x, y: difference }], xLabel: "x", yLabel: "difference", label: "GELU minus its tanh approximation" });
}

scoreSection(document.getElementById("scores-charts"));
vectorSection(document.getElementById("vectors-charts"));
positionSection(document.getElementById("positions-charts"));
activationSection(document.getElementById("activations-charts"));
choose(chosen.layer, chosen.head);
document.documentElement.dataset.drawn = "yes";
