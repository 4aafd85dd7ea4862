/** Entities, highlighted in the text. */

import { find, formatPercent, make } from "../dom.ts";
import type { View } from "../panel.ts";

const NUM_COLORS = 8; // of style.css

/** Returns the labels of entities, from tags such as B-person and I-person, each once. */
function getEntityLabels(tags: string[]): string[] {
  return [...new Set(tags.filter((tag) => tag !== "O").map((tag) => tag.replace(/^[BIESLU]-/, "")))];
}

export const entities: View<"tag"> = {
  task: "tag",
  examples: {
    textarea:
      "Ada Lovelace grew up in London and wrote about Charles Babbage. " +
      "Today Microsoft and Google name programs after her, from Seattle to Zürich 🎉",
  },

  read(section) {
    const text = find<HTMLTextAreaElement>("textarea", section).value;
    return text.trim() ? [text] : null;
  },

  show(section, [text = ""], { labels, entities }) {
    const names = getEntityLabels(labels);
    const parts: (Node | string)[] = [];
    let end = 0;
    for (const entity of entities) {
      const color = `color-${names.indexOf(entity.label) % NUM_COLORS}`;
      const { label, start, probability } = entity;
      const mark = make("mark", { className: `entity ${color}`, data: { label, start, end: entity.end, probability } });
      mark.append(make("span", { className: "words" }, text.slice(start, entity.end)));
      mark.append(make("span", { className: "label" }, label));
      mark.title = `${label}, ${formatPercent(probability)}`;
      parts.push(text.slice(end, start), mark);
      end = entity.end;
    }
    find(".reading", section).replaceChildren(...parts, text.slice(end));
    const counts = names.map((name) => entities.filter((entity) => entity.label === name).length);
    const chips = names.map((name, index) => {
      const chip = make("span", { className: `chip color-${index % NUM_COLORS}` }, make("i"), `${name} `);
      chip.append(make("b", {}, String(counts[index])));
      if (counts[index] === 0) {
        chip.classList.add("absent");
        chip.setAttribute("aria-hidden", "true"); // screen readers need not read zeros after each change
      }
      return chip;
    });
    find(".legend", section).replaceChildren(...chips);
  },

  clear(section) {
    find(".legend", section).replaceChildren();
    find(".reading", section).replaceChildren(make("span", { className: "hint" }, "Type a text."));
  },
};
