/** Lines sorted by the similarity of their meaning to a query. */

import { find, make, makeBar } from "../dom.ts";
import type { View } from "../panel.ts";

const NUM_SHOWN = 10;

export const search: View<"embed"> = {
  task: "embed",
  examples: {
    "#embed-query": "rail travel to Austria",
    "#embed-lines": [
      "The train to Vienna departs at seven in the morning.",
      "The hotel at the harbour still has free rooms.",
      "Please water the plants while I am away.",
      "The museum is closed on Mondays.",
      "My passport expires next spring.",
      "The night bus to Salzburg stops behind the station.",
      "The recipe needs two eggs and a lemon.",
    ].join("\n"),
  },

  read(section) {
    const query = find<HTMLInputElement>("#embed-query", section).value;
    const text = find<HTMLTextAreaElement>("#embed-lines", section).value;
    const lines = text.split("\n").filter((line) => line.trim());
    return query.trim() && lines.length ? [query, ...lines] : null;
  },

  show(section, [, ...lines], cosines) {
    const order = lines.map((_, index) => index).sort((a, b) => cosines[b]! - cosines[a]!);
    const items = order.slice(0, NUM_SHOWN).map((index) => {
      const cosine = cosines[index]!;
      const words = make("span", { className: "words", dir: "auto" }, lines[index]!);
      const number = make("span", { className: "number" }, cosine.toFixed(2).replace("-0.00", "0.00"));
      return make("li", { data: { line: index, cosine } }, makeBar(cosine), number, words);
    });
    find("ol", section).replaceChildren(...items);
    find(".best", section).textContent = lines[order[0]!]!;
    find(".more", section).textContent = lines.length > NUM_SHOWN ? `${NUM_SHOWN} of ${lines.length} lines` : "";
  },

  clear(section) {
    find("ol", section).replaceChildren();
    find(".best", section).textContent = "";
    find(".more", section).replaceChildren(make("span", { className: "hint" }, "Type a query and some lines."));
  },
};
