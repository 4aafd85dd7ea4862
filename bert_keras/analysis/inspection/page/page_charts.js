// Line charts and heat maps; each prints the values under the pointer or the arrow-key cursor.

function ticks(low, high, count) {
  const rough = (high - low) / count || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((one) => one * power).find((one) => one >= rough);
  const found = [];
  for (let value = Math.ceil(low / step) * step; value <= high + step * 1e-6; value += step) found.push(Math.abs(value) < step * 1e-6 ? 0 : value);
  return found;
}

function extent(lists) {
  const values = lists.flat().filter((value) => value !== null);
  return values.length ? [values.reduce((a, b) => Math.min(a, b)), values.reduce((a, b) => Math.max(a, b))] : [0, 1];
}

// 0, 1, 10, 100, ... up to a power of ten
function powers(high) { return [0, ...Array.from({ length: Math.floor(high) + 1 }, (_, power) => 10 ** power)]; }

function short(value) { return Math.abs(value) >= 10000 ? `${number(value / 1000, 1)}k` : number(value, 4); }

// The value of a series at x; an area is a step function
function valueAt(one, x) {
  if (!one.isArea) return one.y[one.x.indexOf(x)];
  let step = -1;
  while (step + 1 < one.x.length && one.x[step + 1] <= x) step++;
  return step < 0 ? 0 : one.y[step];
}

// series: [{name, x, y, dashed, isArea, place}]; x is ascending, null in y is a gap, place selects the color, from 1
function lineChart(box, { series, xLabel, yLabel, label, whole = false, isLog = false }) {
  series = series.map((one, place) => ({ place: place + 1, ...one }));
  const legend = build("div", { class: "legend" });
  series.forEach((one) => legend.append(build("span", {}, build("i", { class: `series-${one.place}${one.dashed ? " dashed" : ""}` }), one.name)));
  const frame = build("div", { class: "chart" });
  const reading = build("p", { class: "reading soft", "aria-live": "polite" });
  box.append(legend, frame, reading);
  let [left, right] = extent(series.map((one) => one.x));
  const toScale = (value) => (isLog && value !== null ? Math.log10(1 + value) : value); // counts may be 0
  let [low, high] = extent(series.map((one) => one.y.map(toScale)));
  if (left === right) { left -= 1; right += 1; }
  if (low === high) { low -= Math.abs(low) * 0.1 || 1; high += Math.abs(high) * 0.1 || 1; }
  const every = [...new Set(series.flatMap((one) => one.x))].sort((a, b) => a - b);
  let at = null;
  drawn(frame, (width) => {
    const [height, before, under, above] = [250, 56, 40, 22];
    const toX = (value) => before + ((value - left) / (right - left)) * (width - before - 12);
    const toY = (value) => height - under - ((toScale(value) - low) / (high - low)) * (height - under - above);
    const svg = build("svg", { height, viewBox: `0 0 ${width} ${height}`, role: "img", tabindex: 0, "aria-label": label });
    for (const value of isLog ? powers(high) : ticks(low, high, 5)) {
      svg.append(build("line", { class: "grid", x1: before, x2: width - 12, y1: toY(value), y2: toY(value) }));
      svg.append(build("text", { x: before - 7, y: toY(value) + 4, "text-anchor": "end" }, short(value)));
    }
    for (const value of ticks(left, right, Math.max(2, Math.floor(width / 90))).filter((one) => !whole || Number.isInteger(one))) {
      svg.append(build("text", { x: toX(value), y: height - under + 18, "text-anchor": "middle" }, short(value)));
    }
    svg.append(build("text", { x: before, y: 12 }, yLabel));
    svg.append(build("text", { x: width - 12, y: height - 6, "text-anchor": "end" }, xLabel));
    series.forEach((one) => {
      const points = one.x.map((x, index) => [x, one.y[index]]).filter(([, y]) => y !== null);
      const path = points.map(([x, y], index) => `${index ? "L" : "M"}${toX(x).toFixed(1)} ${toY(y).toFixed(1)}`).join("");
      const style = one.isArea ? `area fill-${one.place} series-${one.place}` : `line series-${one.place}`;
      svg.append(build("path", { class: style, d: path, "stroke-dasharray": one.dashed ? "6 5" : null }));
      if (points.length < 25 && !one.isArea) for (const [x, y] of points) svg.append(build("circle", { class: `fill-${one.place}`, cx: toX(x), cy: toY(y), r: 3 }));
    });
    const cursor = build("line", { class: "cursor", y1: above, y2: height - under, visibility: "hidden" });
    svg.append(cursor);
    const read = (index) => {
      at = Math.min(Math.max(index, 0), every.length - 1);
      const x = every[at];
      cursor.setAttribute("x1", toX(x)); cursor.setAttribute("x2", toX(x)); cursor.setAttribute("visibility", "visible");
      const values = series.map((one) => [one.name, valueAt(one, x)]).filter(([, y]) => y !== undefined && y !== null);
      reading.textContent = `${xLabel} ${number(x, 4)}: ${values.map(([name, y]) => `${name} ${number(y, 4)}`).join(", ")}`;
    };
    svg.addEventListener("pointermove", (event) => {
      const x = left + ((event.clientX - svg.getBoundingClientRect().left - before) / (width - before - 12)) * (right - left);
      read(every.reduce((best, value, index) => (Math.abs(value - x) < Math.abs(every[best] - x) ? index : best), 0));
    });
    svg.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (step) { event.preventDefault(); read(at === null ? 0 : at + step); }
    });
    frame.replaceChildren(svg);
  });
}

const measure = document.createElement("canvas").getContext("2d");
function cut(label) {
  const letters = [...label];
  return letters.length > 14 ? `${letters.slice(0, 13).join("")}…` : label;
}

// rows, columns: labels; value(row, column); intensity(value): 0 to 1 for the color. Returns a function that redraws
function heatMap(box, { rows, columns, value, intensity, ramp, label, describe, rowLabel, columnLabel, fill = 560, onRead = null }) {
  const frame = build("div", { class: "map", tabindex: 0, role: "img", "aria-label": label });
  const scroll = build("div", { class: "scroll" }, frame);
  const reading = build("p", { class: "reading", "aria-live": "polite" });
  box.append(scroll, reading);
  let at = [0, 0];
  const draw = drawn(box, (width) => {
    measure.font = "12px monospace";
    const longest = (labels) => Math.max(10, ...labels.map((one) => measure.measureText(cut(one)).width));
    const [before, above] = [longest(rows) + 26, longest(columns) + 30];
    const room = Math.max(Math.min(fill, width - before - 4), 150);
    const across = Math.max(Math.min(room / columns.length, 30), 2);
    const down = rows.length === columns.length ? across : Math.max(Math.min(across, 26), 16);
    const [wide, high] = [across * columns.length, down * rows.length];
    frame.style.width = `${before + wide + 4}px`;
    frame.style.height = `${above + high + 4}px`;
    const canvas = build("canvas", { width: columns.length, height: rows.length });
    Object.assign(canvas.style, { left: `${before}px`, top: `${above}px`, width: `${wide}px`, height: `${high}px` });
    paint(canvas, rows.length, columns.length, (row, column) => shade(intensity(value(row, column)), ramp));
    const svg = build("svg", { width: before + wide + 4, height: above + high + 4, "aria-hidden": "true" });
    const names = { row: [], column: [] };
    const [everyRow, everyColumn] = [Math.ceil(9 / down), Math.ceil(9 / across)];
    rows.forEach((one, place) => {
      const text = build("text", { x: before - 5, y: above + (place + 0.5) * down + 4, "text-anchor": "end", "font-size": Math.min(12, Math.max(9, down)) }, cut(one));
      if (place % everyRow) text.setAttribute("visibility", "hidden");
      names.row.push(text);
    });
    columns.forEach((one, place) => {
      const [x, y] = [before + (place + 0.5) * across + 4, above - 5];
      const text = build("text", { x, y, transform: `rotate(-90 ${x} ${y})`, "font-size": Math.min(12, Math.max(9, across)) }, cut(one));
      if (place % everyColumn) text.setAttribute("visibility", "hidden");
      names.column.push(text);
    });
    const cross = build("rect", { class: "cross", width: across, height: down, visibility: "hidden" });
    const middle = above + high / 2;
    svg.append(
      build("text", { class: "axis", x: 12, y: middle, "text-anchor": "middle", transform: `rotate(-90 12 ${middle})` }, rowLabel),
      build("text", { class: "axis", x: before + wide / 2, y: 11, "text-anchor": "middle" }, columnLabel),
      ...names.row, ...names.column, cross,
    );
    const read = (row, column) => {
      for (const one of svg.querySelectorAll(".here")) { one.classList.remove("here"); if (one.dataset.hidden) one.setAttribute("visibility", "hidden"); }
      at = [Math.min(Math.max(row, 0), rows.length - 1), Math.min(Math.max(column, 0), columns.length - 1)];
      for (const one of [names.row[at[0]], names.column[at[1]]]) {
        if (one.getAttribute("visibility") === "hidden") one.dataset.hidden = "yes";
        one.setAttribute("visibility", "visible");
        one.classList.add("here");
      }
      cross.setAttribute("x", before + at[1] * across); cross.setAttribute("y", above + at[0] * down); cross.setAttribute("visibility", "visible");
      reading.textContent = describe(at[0], at[1], value(at[0], at[1]));
      if (onRead) onRead(at[0], at[1]);
    };
    canvas.addEventListener("pointermove", (event) => {
      const edge = canvas.getBoundingClientRect();
      read(Math.floor((event.clientY - edge.top) / down), Math.floor((event.clientX - edge.left) / across));
    });
    frame.onkeydown = (event) => {
      const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
      if (step) { event.preventDefault(); read(at[0] + step[0], at[1] + step[1]); }
    };
    frame.replaceChildren(canvas, svg);
  });
  return () => { reading.textContent = ""; draw(); };
}

function paint(canvas, numRows, numColumns, getColor) {
  const context = canvas.getContext("2d");
  const image = context.createImageData(numColumns, numRows);
  for (let row = 0; row < numRows; row++) {
    for (let column = 0; column < numColumns; column++) {
      image.data.set([...getColor(row, column), 255], 4 * (row * numColumns + column));
    }
  }
  context.putImageData(image, 0, 0);
}

// A color scale with labels at equal distances; returns the labels
function colorKey(box, title, stops, ramp) {
  const canvas = build("canvas", { width: 220, height: 1, "aria-hidden": "true" });
  const labels = stops.map((stop) => build("span", {}, stop));
  box.append(build("div", { class: "key" }, build("span", {}, title), build("div", {}, canvas, build("div", { class: "ticks" }, ...labels))));
  const draw = () => paint(canvas, 1, 220, (row, column) => shade(column / 219, ramp));
  draw();
  redraws.push(draw);
  return labels;
}
