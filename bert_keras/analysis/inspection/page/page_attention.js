// Attention: a grid of heads, the map of the selected head, and the tokens with their attention.

const { num_layers: numLayers, num_heads: numHeads, length } = data;
const shown = data.attention.shown;
const tokens = data.tokens.slice(0, shown);
const maps = new Uint16Array(decoded(data.attention.maps).buffer);
const chosen = { layer: data.attention.layer, head: data.attention.head, token: Math.min(1, shown - 1), isQuery: true };
const listeners = []; // called when another head is selected

function probability(layer, head, query, key) {
  return maps[((layer * numHeads + head) * shown + query) * shown + key] / 65535;
}

// The color scale ends at 1 or at the maximum of the head, because in long texts all probabilities are small
const stretch = { isOn: length > 64, largest: new Map() };
function scaleMaximum(layer, head) {
  if (!stretch.isOn) return 1;
  const place = layer * numHeads + head;
  if (!stretch.largest.has(place)) {
    let found = 1;
    for (let one = place * shown * shown; one < (place + 1) * shown * shown; one++) found = Math.max(found, maps[one]);
    stretch.largest.set(place, found / 65535);
  }
  return stretch.largest.get(place);
}
function intensity(value, layer, head) { return Math.sqrt(value / scaleMaximum(layer, head)); }

function getSummary(layer, head) { return data.heads[layer * numHeads + head]; }
function percent(value) { return `${(100 * value).toFixed(1)} %`; }

function choose(layer, head) {
  Object.assign(chosen, { layer, head });
  listeners.forEach((update) => update());
}

const gridMaxima = { entropy: Math.log2(length), distance: null, cls: 1, sep: 1, itself: 1, previous: 1, next: 1, near: 1 };

function headGrid(box, controls) {
  const names = { maps: "attention maps", entropy: "entropy (bits)", distance: "distance (tokens)", cls: "share to [CLS]", sep: "share to [SEP]",
    itself: "share to itself", previous: "share to previous token", next: "share to next token", near: "share within 3 tokens" };
  const select = build("select", { id: "in-grid" }, ...Object.entries(names).map(([value, name]) => build("option", { value }, name)));
  const kinds = [...new Set(data.heads.map((head) => head.kind))].map((kind) => [kind, data.heads.filter((head) => head.kind === kind).length]);
  let kind = null;
  const filters = kinds.sort((a, b) => b[1] - a[1]).map(([name, count]) => build("button", { "aria-pressed": "false", onclick: () => {
    kind = kind === name ? null : name;
    fill();
  } }, `${name} ${count}`));
  const reach = build("button", { onclick: () => {
    stretch.isOn = !stretch.isOn;
    fill();
    choose(chosen.layer, chosen.head);
  } }, "scale colors per head");
  controls.append(build("label", { for: "in-grid" }, "Show in grid"), select, ...filters, reach);
  const grid = build("div", { class: "heads", role: "group", "aria-label": "Attention heads, one row per layer; use the arrow keys" });
  grid.style.gridTemplateColumns = `auto repeat(${numHeads}, max-content)`;
  grid.append(build("span", {}, ""), ...Array.from({ length: numHeads }, (_, head) => build("span", {}, String(head))));
  const buttons = data.heads.map((head) => {
    const label = `layer ${head.layer}, head ${head.head}: ${head.kind}`;
    return build("button", { "aria-label": label, title: label, onclick: () => choose(head.layer, head.head) });
  });
  buttons.forEach((button, place) => {
    if (place % numHeads === 0) grid.append(build("span", {}, String(place / numHeads)));
    grid.append(button);
  });
  grid.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -numHeads, ArrowDown: numHeads }[event.key];
    const place = buttons.indexOf(document.activeElement) + step;
    if (!step || !buttons[place]) return;
    event.preventDefault();
    buttons[place].focus();
    choose(data.heads[place].layer, data.heads[place].head);
  });
  const pool = Math.ceil(shown / 37);
  const size = Math.ceil(shown / pool);
  function largest(layer, head, row, column) {
    let found = 0;
    for (let y = row * pool; y < Math.min((row + 1) * pool, shown); y++) {
      for (let x = column * pool; x < Math.min((column + 1) * pool, shown); x++) found = Math.max(found, maps[((layer * numHeads + head) * shown + y) * shown + x]);
    }
    return intensity(found / 65535, layer, head);
  }
  function fill() {
    buttons.forEach((button, place) => {
      const head = data.heads[place];
      button.classList.toggle("faint", kind !== null && head.kind !== kind);
      if (select.value === "maps") {
        const canvas = build("canvas", { width: size, height: size });
        paint(canvas, size, size, (row, column) => shade(largest(head.layer, head.head, row, column)));
        button.replaceChildren(canvas);
        return;
      }
      const maximum = gridMaxima[select.value] || Math.max(...data.heads.map((one) => one[select.value]));
      const color = shade(head[select.value] / maximum);
      button.style.background = css(color);
      button.style.color = inkOn(color);
      button.replaceChildren(head[select.value].toFixed(2));
    });
    reach.setAttribute("aria-pressed", String(stretch.isOn));
    filters.forEach((button, place) => button.setAttribute("aria-pressed", String(kinds[place][0] === kind)));
  }
  select.addEventListener("change", fill);
  redraws.push(fill);
  listeners.push(() => buttons.forEach((button, place) => {
    const isChosen = place === chosen.layer * numHeads + chosen.head;
    button.setAttribute("aria-pressed", String(isChosen));
    button.tabIndex = isChosen ? 0 : -1;
  }));
  fill();
  box.append(build("div", { class: "scroll tall" }, grid));
}

function attentionMap(box) {
  const title = build("h3", {});
  const sentence = build("p", { class: "soft" });
  const place = build("div", {});
  box.append(title, sentence, place);
  const draw = heatMap(place, {
    rows: tokens, columns: tokens, rowLabel: "query", columnLabel: "key", fill: 600,
    value: (row, column) => probability(chosen.layer, chosen.head, row, column),
    intensity: (value) => intensity(value, chosen.layer, chosen.head),
    describe: (row, column, value) => `query ${isolated(tokens[row])} (${row}), key ${isolated(tokens[column])} (${column}): ${value.toFixed(3)}`,
    label: "Attention map; use the arrow keys to read values",
    onRead: (row) => { if (chosen.isQuery && chosen.token !== row) { chosen.token = row; readTokens(); } },
  });
  const labels = colorKey(box, "attention", ["0", "", "", "", ""]);
  listeners.push(() => {
    const head = getSummary(chosen.layer, chosen.head);
    title.textContent = `Layer ${head.layer}, head ${head.head}: ${head.kind}`;
    sentence.textContent = `Mean distance ${head.distance.toFixed(1)} tokens; entropy ${head.entropy.toFixed(2)} bits (maximum ${Math.log2(length).toFixed(2)}); attention to ` +
      `[CLS] ${percent(head.cls)}, [SEP] ${percent(head.sep)}, itself ${percent(head.itself)}, previous token ${percent(head.previous)}, next token ${percent(head.next)}.`;
    labels.forEach((one, place) => { one.textContent = String(Number(((place / 4) ** 2 * scaleMaximum(head.layer, head.head)).toPrecision(2))); });
    draw();
  });
}

let readTokens = () => {};
function tokenStrip(box) {
  const asQuery = build("button", { onclick: () => { chosen.isQuery = true; readTokens(); } }, "as query");
  const asKey = build("button", { onclick: () => { chosen.isQuery = false; readTokens(); } }, "as key");
  const reading = build("p", { class: "reading", "aria-live": "polite" });
  const strip = build("div", { class: "tokens" });
  const nodes = tokens.map((token, place) => {
    const node = build("button", { class: data.segments[place] ? "second" : null, onclick: () => pick(place), onpointerenter: () => pick(place), onfocus: () => pick(place) });
    strip.append(node);
    return node;
  });
  const pick = (place) => { if (chosen.token !== place) { chosen.token = place; readTokens(); } };
  readTokens = () => {
    asQuery.setAttribute("aria-pressed", String(chosen.isQuery));
    asKey.setAttribute("aria-pressed", String(!chosen.isQuery));
    const { layer, head, token } = chosen;
    const values = tokens.map((_, place) => (chosen.isQuery ? probability(layer, head, token, place) : probability(layer, head, place, token)));
    nodes.forEach((node, place) => {
      const color = shade(intensity(values[place], layer, head));
      Object.assign(node.style, { background: css(color), color: inkOn(color) });
      node.setAttribute("aria-pressed", String(place === token));
      node.replaceChildren(tokens[place], build("small", {}, values[place].toFixed(3)));
    });
    const best = values.map((value, place) => [value, place]).sort((a, b) => b[0] - a[0]).slice(0, 3);
    reading.textContent = `${isolated(tokens[token])} (${token}) as ${chosen.isQuery ? "query attends most to" : "key receives most attention from"} ` +
      best.map(([value, place]) => `${isolated(tokens[place])} (${place}) ${value.toFixed(3)}`).join(", ");
  };
  box.append(build("div", { class: "controls" }, build("span", {}, "Token under the pointer"), asQuery, asKey), strip, reading);
  listeners.push(readTokens);
  redraws.push(readTokens);
}

function headTable() {
  const table = document.getElementById("head-table");
  const body = table.tBodies[0];
  const rows = [...body.rows];
  [...table.tHead.rows[0].cells].forEach((cell, column) => {
    const name = cell.textContent;
    cell.replaceChildren(build("button", { onclick: () => {
      const isDescending = cell.getAttribute("aria-sort") === "ascending" || (column > 2 && !cell.hasAttribute("aria-sort"));
      for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
      cell.setAttribute("aria-sort", isDescending ? "descending" : "ascending");
      const key = (row) => { const text = row.cells[column].textContent; return Number.isNaN(Number(text)) ? text : Number(text); };
      rows.sort((a, b) => (key(a) < key(b) ? -1 : key(a) > key(b) ? 1 : 0) * (isDescending ? -1 : 1));
      body.append(...rows);
    } }, name));
  });
  const ordered = [...rows];
  ordered.forEach((row, place) => {
    const head = data.heads[place];
    row.cells[2].replaceChildren(build("button", { title: "show the map of this head", onclick: () => { choose(head.layer, head.head); document.getElementById("attention").scrollIntoView(); } }, head.kind));
  });
  listeners.push(() => ordered.forEach((row, place) => row.classList.toggle("chosen", place === chosen.layer * numHeads + chosen.head)));
}

headGrid(document.getElementById("head-grid"), document.getElementById("head-controls"));
attentionMap(document.getElementById("attention-map"));
tokenStrip(document.getElementById("token-strip"));
headTable();
