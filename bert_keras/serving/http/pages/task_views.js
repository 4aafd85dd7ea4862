// How each task is asked and shown: the inputs, the bodies of the requests, and the elements of the answer.

import { build, count, decimal, percent } from "./common.js";

const NUM_SHOWN = 6; // bars before "more"
const MAX_CLASSES = 20; // classes asked for
const NUM_COLORS = 6; // of page.css

export const TASKS = {
  classify: {
    title: "Classify text",
    path: "classify",
    hint: "Enter a text.",
    listFields: (model) =>
      isPair(model)
        ? [
            { name: "text", label: "Text", rows: 4, value: "A man is playing a guitar on a stage." },
            { name: "second_text", label: "Second text", rows: 4, value: "Somebody makes music." },
          ]
        : [
            {
              name: "text",
              label: "Text",
              rows: 7,
              value: "A warm, funny film whose actors are a joy to watch, even if the last half hour is too long.",
            },
          ],
    makeBodies: (inputs, model) => {
      if (!inputs.text.trim()) return null;
      const top = Math.min(listLabels(model).length, MAX_CLASSES);
      return [{ ...inputs, model: model.model_id, ...(top > 1 ? { top } : {}) }]; // a model of values has no classes
    },
    show: showClasses,
  },
  tag: {
    title: "Tag words",
    path: "tag",
    hint: "Enter a text.",
    listFields: () => [
      {
        name: "text",
        label: "Text",
        rows: 7,
        value:
          "Ada Lovelace met Charles Babbage in London. 🎉 A century later, Grace Hopper wrote the first compiler " +
          "in Philadelphia.",
      },
    ],
    makeBodies: (inputs, model) => (inputs.text.trim() ? [{ ...inputs, model: model.model_id }] : null),
    show: showTags,
  },
  answer: {
    title: "Answer questions",
    path: "answer",
    hint: "Enter a question and a text that contains its answer.",
    listFields: () => [
      { name: "question", label: "Question", value: "Who built the locomotive?" },
      {
        name: "context",
        label: "Text",
        rows: 8,
        value:
          "The first public steam railway opened in 1825 between Stockton and Darlington in the north of England. " +
          "George Stephenson built its locomotive in Newcastle. On the first day, it pulled 450 passengers at 24 " +
          "kilometres an hour.",
      },
    ],
    makeBodies: (inputs, model) =>
      inputs.question.trim() && inputs.context.trim() ? [{ ...inputs, model: model.model_id, top: 5 }] : null,
    show: showSpans,
  },
  embed: {
    title: "Compare texts",
    path: "embed",
    hint: "Enter a query, and one or more texts, one per line.",
    listFields: (model) => {
      const prompts = [["", "the model's default"], ...Object.keys(model.prompts).map((name) => [name, name])];
      const choose = (name, label) => (prompts.length > 1 ? [{ name, label, choices: prompts, value: "" }] : []);
      return [
        { name: "query", label: "Query", value: "How do I get my money back?" },
        ...choose("query_prompt", "Prompt of the query"),
        {
          name: "texts",
          label: "Texts, one per line",
          rows: 8,
          value:
            "Refunds arrive within five days.\nReturning the shoes is free.\nOur office is in Lisbon.\n" +
            "The parcel was delivered this morning.\nChange your password in the settings.\n" +
            "Breakfast is included in the price.",
        },
        ...choose("text_prompt", "Prompt of the texts"),
      ];
    },
    makeBodies: (inputs, model) => {
      const texts = listLines(inputs.texts);
      if (!inputs.query.trim() || !texts.length) return null;
      const make = (given, prompt) => ({
        inputs: given,
        model: model.model_id,
        truncate: true, // as the other tasks do
        ...(prompt ? { prompt_name: prompt } : {}),
      });
      return inputs.query_prompt === inputs.text_prompt
        ? [make([inputs.query, ...texts], inputs.query_prompt)]
        : [make([inputs.query], inputs.query_prompt), make(texts, inputs.text_prompt)];
    },
    show: showNeighbours,
  },
  "fill-mask": {
    title: "Fill in masks",
    path: "fill-mask",
    hint: "Enter a text with [MASK] in it.",
    listFields: () => [{ name: "text", label: "Text with [MASK]", rows: 5, value: "Paris is the [MASK] of France." }],
    makeBodies: (inputs, model) => (inputs.text.trim() ? [{ ...inputs, model: model.model_id }] : null),
    show: showMasks,
  },
};

const isPair = (model) => model.input_names.includes("second_text");
export const listLabels = (model) => Object.values(Object.values(model.model_type)[0].id2label ?? {});
const listLines = (text) =>
  text
    .split("\n")
    .map((line) => line.trim())
    .filter(Boolean);

// Bars from 0 to 1. rows: {name, share, value, isChosen}
function makeBars(rows) {
  return build(
    "ol",
    { class: "bars" },
    ...rows.map(({ name, share, value, isChosen }) => {
      const bar = build("span", {});
      bar.style.width = percent(Math.min(Math.max(share, 0), 1)).replace(" ", "");
      return build(
        "li",
        { class: isChosen ? "chosen" : null },
        build("span", { class: "name", dir: "auto" }, name),
        build("span", { class: "number" }, value),
        build("span", { class: "track", "aria-hidden": "true" }, bar),
      );
    }),
  );
}

// The server counts characters as Unicode code points, JavaScript as UTF-16 units: an emoji is 1 there and 2 here.
// Returns the text with an element for each range {start, end}; ranges are in order and do not overlap.
function markRanges(text, ranges, mark) {
  const points = Array.from(text);
  const nodes = [];
  let place = 0;
  for (const range of ranges) {
    nodes.push(points.slice(place, range.start).join(""), mark(range, points.slice(range.start, range.end).join("")));
    place = range.end;
  }
  return build("p", { class: "marked", dir: "auto" }, ...nodes, points.slice(place).join(""));
}

function showClasses(box, [answer]) {
  if (answer.value !== undefined) return `Value ${decimal(answer.value, 3)}`;
  const best = answer.best ?? [answer];
  const rows = best.map(({ label, probability }) => ({
    name: label,
    share: probability,
    value: percent(probability),
    isChosen: (answer.labels ?? [answer.label]).includes(label),
  }));
  box.append(makeBars(rows.slice(0, NUM_SHOWN)));
  const rest = rows.slice(NUM_SHOWN);
  if (rest.length) box.append(build("details", {}, build("summary", {}, `${rest.length} more`), makeBars(rest)));
  if (!answer.labels) return `${answer.label}, ${percent(answer.probability)}`;
  box.append(
    build(
      "p",
      { class: "hint" },
      "Each label has a probability of its own; the labels above the model's threshold are chosen.",
    ),
  );
  return answer.labels.length ? answer.labels.join(", ") : "No label is above the model's threshold";
}

function showTags(box, [answer], { text }, model) {
  const labels = [
    ...new Set(listLabels(model).map((label) => (answer.entities ? label.replace(/^[A-Z]-/, "") : label))),
  ].filter((label) => label !== "O");
  const color = (label) => `color-${1 + (Math.max(labels.indexOf(label), 0) % NUM_COLORS)}`;
  if (!answer.entities) {
    box.append(
      markRanges(text, answer.words, (one, word) =>
        build("span", { class: `word ${color(one.label)}` }, word, build("small", {}, one.label)),
      ),
    );
    return count(answer.words.length, "word");
  }
  box.append(
    markRanges(text, answer.entities, (one, entity) =>
      build(
        "mark",
        { class: color(one.label), title: percent(one.probability) },
        entity,
        build("small", {}, one.label),
      ),
    ),
  );
  if (answer.entities.length) {
    box.append(
      makeTable(
        ["Entity", "Label", "Probability", "Characters"],
        answer.entities.map((one) => [one.text, one.label, percent(one.probability), `${one.start} to ${one.end}`]),
      ),
    );
  }
  box.append(
    build(
      "details",
      {},
      build("summary", {}, "Tags of all words"),
      makeTable(
        ["Word", "Tag"],
        answer.words.map((one) => [one.text, one.tag]),
      ),
    ),
  );
  const number = answer.entities.length;
  return number === 1 ? "1 entity" : `${number || "No"} entities`;
}

function makeTable(titles, rows) {
  return build(
    "div",
    { class: "scroll" },
    build(
      "table",
      {},
      build("thead", {}, build("tr", {}, ...titles.map((title) => build("th", { scope: "col" }, title)))),
      build("tbody", {}, ...rows.map((row) => build("tr", {}, ...row.map((value) => build("td", {}, value))))),
    ),
  );
}

function showSpans(box, [answer], { context }) {
  const place = build("div", {});
  const show = (span) =>
    place.replaceChildren(
      markRanges(context, span ? [span] : [], (_, text) => build("mark", { class: "color-1" }, text)),
    );
  const hasAnswer = answer.answer !== "";
  show(hasAnswer ? answer : null);
  box.append(place);
  const others = answer.best.filter((one) => !hasAnswer || one.start !== answer.start || one.end !== answer.end);
  if (others.length) {
    const bars = makeBars(
      answer.best.map((one) => ({
        name: build("button", { type: "button", onclick: () => show(one), title: "Show in the text" }, one.answer),
        share: one.probability,
        value: percent(one.probability),
        isChosen: !others.includes(one),
      })),
    );
    box.append(build("h2", {}, hasAnswer ? "Best answers" : "Best spans, below the model's threshold"), bars);
  }
  return hasAnswer ? `${answer.answer}, ${percent(answer.probability)}` : "No answer in this text";
}

function showNeighbours(box, answers, inputs, model, comparison) {
  const [query, ...vectors] = answers.flat(); // of length 1, so that the dot product is the cosine
  const found = listLines(inputs.texts)
    .map((text, index) => ({ text, vector: vectors[index], cosine: dot(query, vectors[index]) }))
    .sort((one, other) => other.cosine - one.cosine);
  box.append(
    makeBars(
      found.map(({ text, cosine }, place) => ({
        name: `${place + 1}. ${text}`,
        share: cosine,
        value: decimal(cosine, 2),
        isChosen: !place,
      })),
    ),
  );
  if (found.length > 1) showMatrix(comparison, [{ text: inputs.query, vector: query }, ...found]);
  return `Closest: ${found[0].text}`;
}

const dot = (one, other) => one.reduce((sum, value, index) => sum + value * other[index], 0);

// All cosines, instead of a map of two principal components: a map of a few texts shows a part of the variance only
function showMatrix(box, texts) {
  const cosines = texts.map((one) => texts.map((other) => dot(one.vector, other.vector)));
  const different = cosines.flatMap((row, index) => row.filter((_, column) => column !== index));
  const [low, high] = [Math.min(...different), Math.max(...different)];
  const names = texts.map((_, index) => (index ? String(index) : "Query"));
  const rows = cosines.map((row, index) =>
    build(
      "tr",
      {},
      build(
        "th",
        { scope: "row", title: texts[index].text },
        build("b", {}, names[index]),
        index ? build("span", { dir: "auto" }, texts[index].text) : "",
      ),
      ...row.map((cosine, column) => {
        const cell = build("td", {}, column === index ? "" : decimal(cosine, 2));
        if (column !== index) cell.style.setProperty("--share", (cosine - low) / (high - low || 1));
        return cell;
      }),
    ),
  );
  box.append(
    build("h2", {}, "Cosines of all pairs"),
    build(
      "p",
      { class: "hint" },
      `The color goes from the lowest, ${decimal(low, 2)}, to the highest, ${decimal(high, 2)}. ` +
        "The texts are in the order of the result.",
    ),
    build(
      "div",
      { class: "scroll", tabindex: 0, role: "region", "aria-label": "Cosines of all pairs" },
      build(
        "table",
        { class: "matrix" },
        build(
          "thead",
          {},
          build("tr", {}, build("td", {}), ...names.map((name) => build("th", { scope: "col" }, name))),
        ),
        build("tbody", {}, ...rows),
      ),
    ),
  );
}

function showMasks(box, [{ masks }], { text }) {
  const filled = build("p", { class: "marked", dir: "auto" });
  text.split("[MASK]").forEach((part, place) => {
    const next = masks[place]?.[0].token ?? "";
    filled.append(next.startsWith("##") ? part.trimEnd() : part); // "##s" continues the word before it
    if (next) filled.append(build("mark", { class: "color-1" }, next.replace(/^##/, "")));
  });
  box.append(filled);
  masks.forEach((fillings, place) => {
    if (masks.length > 1) box.append(build("h2", {}, `Mask ${place + 1}`));
    box.append(
      makeBars(
        fillings.map(({ token, probability }, rank) => ({
          name: token,
          share: probability,
          value: percent(probability),
          isChosen: !rank,
        })),
      ),
    );
  });
  return masks.map(([best]) => `${best.token}, ${percent(best.probability)}`).join("; ");
}
