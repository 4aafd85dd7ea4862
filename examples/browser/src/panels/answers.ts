/** The answer to a question, highlighted in a text. */

import type { Span } from "bert-client";

import { find, formatPercent, make, makeBar } from "../dom.ts";
import type { View } from "../panel.ts";

const NUM_SHOWN = 5;

export const answers: View<"answer"> = {
  task: "answer",
  examples: {
    "#answer-question": "Who designed the lighthouse?",
    "#answer-context":
      "The Bell Rock Lighthouse stands off the coast of Angus in Scotland. It was designed by Robert Stevenson " +
      "and built between 1807 and 1810. Its lamp is 35 metres above the sea and can be seen from 56 kilometres away. " +
      "The lighthouse has worked without a keeper since 1988.",
  },

  read(section) {
    const question = find<HTMLInputElement>("#answer-question", section).value;
    const context = find<HTMLTextAreaElement>("#answer-context", section).value;
    return question.trim() && context.trim() ? [question, context] : null;
  },

  show(section, [, context = ""], found) {
    const best = find(".best", section);
    const reading = find(".reading", section);
    const { start, end, probability } = found;
    if (start === null || end === null) {
      best.replaceChildren(make("span", { className: "hint" }, "The text has no answer to this question."));
      reading.replaceChildren(context);
    } else {
      const words = make("strong", { dir: "auto", data: { start, end } }, found.answer);
      const note = make("span", { className: "note" }, formatPercent(probability!));
      best.replaceChildren(words, " ", note);
      const mark = make("mark", { className: "found" }, context.slice(start, end));
      reading.replaceChildren(context.slice(0, start), mark, context.slice(end));
      reading.scrollTop = Math.max(mark.offsetTop - reading.offsetTop - reading.clientHeight / 3, 0);
    }
    find("ol", section).replaceChildren(...found.best.slice(0, NUM_SHOWN).map(makeItem));
  },

  clear(section) {
    find(".best", section).replaceChildren(make("span", { className: "hint" }, "Type a question and a text."));
    find(".reading", section).replaceChildren(find<HTMLTextAreaElement>("#answer-context", section).value);
    find("ol", section).replaceChildren();
  },
};

function makeItem({ answer, start, end, probability, score }: Span): HTMLElement {
  const number = make("span", { className: "number" }, formatPercent(probability));
  const words = make("span", { className: "words", dir: "auto" }, answer);
  return make("li", { data: { start, end, probability } }, makeBar(probability), number, words);
}
