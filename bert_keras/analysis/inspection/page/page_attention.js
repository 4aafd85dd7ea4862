// Attention: a grid of heads to choose from, the map of the chosen one, and the text with its numbers.

const { num_layers: numLayers, num_heads: numHeads, length } = data;
const shown = data.attention.shown;
const tokens = data.tokens.slice(0, shown);
const maps = new Uint16Array(decoded(data.attention.maps).buffer);
const chosen = { layer: data.attention.layer, head: data.attention.head, token: Math.min(1, shown - 1), looks: true };
const followers = [];

function share(layer, head, row, column) {
  return maps[((layer * numHeads + head) * shown + row) * shown + column] / 65535;
}

// Colours reach to 1, or to the largest share of the head: in a long text all shares are small
const stretch = { isOn: length > 64, largest: new Map() };
function most(layer, head) {
  if (!stretch.isOn) return 1;
  const place = layer * numHeads + head;
  if (!stretch.largest.has(place)) {
    let found = 1;
    for (let one = place * shown * shown; one < (place + 1) * shown * shown; one++) found = Math.max(found, maps[one]);
    stretch.largest.set(place, found / 65535);
  }
  return stretch.largest.get(place);
}
function depth(value, layer, head) { return Math.sqrt(value / most(layer, head)); }

function summaryOf(layer, head) { return data.heads[layer * numHeads + head]; }
function percent(value) { return `${(100 * value).toFixed(1)} %`; }

function choose(layer, head) {
  Object.assign(chosen, { layer, head });
  followers.forEach((follow) => follow());
}

const numbersOfGrid = { entropy: Math.log2(length), distance: null, cls: 1, sep: 1, itself: 1, previous: 1, next: 1, near: 1 };

function headGrid(box, controls) {
  const names = { maps: "maps", entropy: "entropy (bits)", distance: "distance (tokens)", cls: "share on [CLS]", sep: "share on [SEP]",
    itself: "share on itself", previous: "share on the token before", next: "share on the token after", near: "share within 3 tokens" };
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
  } }, "colours up to each head’s largest");
  controls.append(build("label", { for: "in-grid" }, "In the grid"), select, ...filters, reach);
  const grid = build("div", { class: "heads", role: "group", "aria-label": "Heads: layers down, heads across; arrow keys move" });
  grid.style.gridTemplateColumns = `auto repeat(${numHeads}, max-content)`;
  grid.append(build("span", {}, ""), ...Array.from({ length: numHeads }, (_, head) => build("span", {}, String(head))));
  const buttons = data.heads.map((head) => {
    const button = build("button", { "aria-label": `layer ${head.layer}, head ${head.head}: ${head.kind}`, title: `layer ${head.layer}, head ${head.head}: ${head.kind}`,
      onclick: () => choose(head.layer, head.head) });
    return button;
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
    return depth(found / 65535, layer, head);
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
      const most = numbersOfGrid[select.value] || Math.max(...data.heads.map((one) => one[select.value]));
      const colour = shade(head[select.value] / most);
      button.style.background = css(colour);
      button.style.color = inkOn(colour);
      button.replaceChildren(head[select.value].toFixed(2));
    });
    reach.setAttribute("aria-pressed", String(stretch.isOn));
    filters.forEach((button, place) => button.setAttribute("aria-pressed", String(kinds[place][0] === kind)));
  }
  select.addEventListener("change", fill);
  redraws.push(fill);
  followers.push(() => buttons.forEach((button, place) => {
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
    rows: tokens, columns: tokens, rowsAre: "who looks", columnsAre: "at whom", fill: 600,
    value: (row, column) => share(chosen.layer, chosen.head, row, column),
    share: (value) => depth(value, chosen.layer, chosen.head),
    told: (row, column, value) => `${isolated(tokens[row])} (${row}) looks at ${isolated(tokens[column])} (${column}): ${value.toFixed(3)}`,
    label: "Map of attention; the arrow keys read its numbers",
    onRead: (row) => { if (chosen.looks && chosen.token !== row) { chosen.token = row; readTokens(); } },
  });
  const labels = colourKey(box, "attention", ["0", "", "", "", ""]);
  followers.push(() => {
    const head = summaryOf(chosen.layer, chosen.head);
    title.textContent = `Layer ${head.layer}, head ${head.head}: ${head.kind}`;
    sentence.textContent = `It looks ${head.distance.toFixed(1)} tokens far; entropy ${head.entropy.toFixed(2)} of at most ${Math.log2(length).toFixed(2)} bits; ` +
      `${percent(head.cls)} on [CLS], ${percent(head.sep)} on [SEP], ${percent(head.itself)} on the token itself, ${percent(head.previous)} on the one before, ${percent(head.next)} on the one after.`;
    labels.forEach((one, place) => { one.textContent = String(Number(((place / 4) ** 2 * most(head.layer, head.head)).toPrecision(2))); });
    draw();
  });
}

let readTokens = () => {};
function tokenStrip(box) {
  const looks = build("button", { onclick: () => { chosen.looks = true; readTokens(); } }, "looks at");
  const isSeen = build("button", { onclick: () => { chosen.looks = false; readTokens(); } }, "is looked at by");
  const reading = build("p", { class: "reading", "aria-live": "polite" });
  const strip = build("div", { class: "tokens" });
  const nodes = tokens.map((token, place) => {
    const node = build("button", { class: data.segments[place] ? "second" : null, onclick: () => pick(place), onpointerenter: () => pick(place), onfocus: () => pick(place) });
    strip.append(node);
    return node;
  });
  const pick = (place) => { if (chosen.token !== place) { chosen.token = place; readTokens(); } };
  readTokens = () => {
    looks.setAttribute("aria-pressed", String(chosen.looks));
    isSeen.setAttribute("aria-pressed", String(!chosen.looks));
    const { layer, head, token } = chosen;
    const shares = tokens.map((_, place) => (chosen.looks ? share(layer, head, token, place) : share(layer, head, place, token)));
    nodes.forEach((node, place) => {
      const colour = shade(depth(shares[place], layer, head));
      Object.assign(node.style, { background: css(colour), color: inkOn(colour) });
      node.setAttribute("aria-pressed", String(place === token));
      node.replaceChildren(tokens[place], build("small", {}, shares[place].toFixed(3)));
    });
    const best = shares.map((value, place) => [value, place]).sort((a, b) => b[0] - a[0]).slice(0, 3);
    reading.textContent = `${isolated(tokens[token])} (${token}) ${chosen.looks ? "looks at" : "is looked at by"} ` +
      best.map(([value, place]) => `${isolated(tokens[place])} (${place}) ${value.toFixed(3)}`).join(", ");
  };
  box.append(build("div", { class: "controls" }, build("span", {}, "The token under the pointer"), looks, isSeen), strip, reading);
  followers.push(readTokens);
  redraws.push(readTokens);
}

function headTable() {
  const table = document.getElementById("head-table");
  const body = table.tBodies[0];
  const rows = [...body.rows];
  [...table.tHead.rows[0].cells].forEach((cell, column) => {
    const name = cell.textContent;
    cell.replaceChildren(build("button", { onclick: () => {
      const falls = cell.getAttribute("aria-sort") === "ascending" || (column > 2 && !cell.hasAttribute("aria-sort"));
      for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
      cell.setAttribute("aria-sort", falls ? "descending" : "ascending");
      const key = (row) => { const text = row.cells[column].textContent; return Number.isNaN(Number(text)) ? text : Number(text); };
      rows.sort((a, b) => (key(a) < key(b) ? -1 : key(a) > key(b) ? 1 : 0) * (falls ? -1 : 1));
      body.append(...rows);
    } }, name));
  });
  const ordered = [...rows];
  ordered.forEach((row, place) => {
    const head = data.heads[place];
    row.cells[2].replaceChildren(build("button", { title: "show its map", onclick: () => { choose(head.layer, head.head); document.getElementById("attention").scrollIntoView(); } }, head.kind));
  });
  followers.push(() => ordered.forEach((row, place) => row.classList.toggle("chosen", place === chosen.layer * numHeads + chosen.head)));
}

headGrid(document.getElementById("head-grid"), document.getElementById("head-controls"));
attentionMap(document.getElementById("attention-map"));
tokenStrip(document.getElementById("token-strip"));
headTable();
