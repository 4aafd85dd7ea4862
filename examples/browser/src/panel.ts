/** A section of the page: it sends its texts to the engine while somebody types, and shows the newest answer. */

import { find, formatMilliseconds, make } from "./dom.ts";
import type { Engine, Progress } from "./engine.ts";
import type { AnswerReply, Answers, ModelEntry, ModelList, TaskName } from "./protocol.ts";

const NUM_TIMES = 21; // the median of these is the typical latency
const RUNTIMES: Record<string, string> = { tflite: "LiteRT", onnx: "ONNX Runtime" };

export interface View<T extends TaskName> {
  task: T;
  /** The texts that the fields show first, keyed by the selector of the field. */
  examples: Record<string, string>;
  /** Reads the texts for the model from the fields; null: there is nothing to answer. */
  read(section: HTMLElement): string[] | null;
  /** Shows an answer. */
  show(section: HTMLElement, texts: string[], answer: Answers[T]): void;
  /** Shows that there is nothing to answer. */
  clear(section: HTMLElement): void;
}

/** Connects a section of the page with the engine. */
export class Panel<T extends TaskName> {
  readonly section: HTMLElement;
  private readonly footer: HTMLElement;
  private readonly model: ModelEntry | undefined;
  private readonly times: number[] = [];
  private first: number | undefined;
  private version = 0;

  constructor(
    private readonly view: View<T>,
    models: ModelList,
    private readonly engine: Promise<Engine>,
  ) {
    this.section = find(`section[data-task=${view.task}]`);
    this.footer = find("footer", this.section);
    this.model = models[view.task];
    if (!this.model) {
      this.showMissing();
      return;
    }
    for (const [selector, text] of Object.entries(view.examples)) {
      const field = find<HTMLInputElement | HTMLTextAreaElement>(selector, this.section);
      if (!field.value) field.value = text; // a reload keeps what was typed
      field.addEventListener("input", () => void this.update());
    }
  }

  /** Shows the answer to the fields' present texts. */
  async update(): Promise<void> {
    if (!this.model) return;
    const version = ++this.version;
    const texts = this.view.read(this.section);
    this.section.setAttribute("aria-busy", "true");
    try {
      const engine = await this.engine;
      if (version !== this.version) return; // a newer text was typed
      const result = texts && (await engine.request(this.view.task, texts, this.makeProgress(version)));
      if (version !== this.version) return;
      if (texts && result) {
        this.view.show(this.section, texts, result.answer);
        this.recordTime(result);
      } else {
        this.view.clear(this.section);
      }
      this.showStatus(engine.numThreads);
    } catch (error) {
      if (version !== this.version) return;
      this.showError(error instanceof Error ? error.message : String(error));
    }
    this.section.setAttribute("aria-busy", "false");
  }

  private makeProgress(version: number): Progress {
    const show = (text: string, fraction: number | null) => {
      if (version !== this.version) return;
      const bar = make("progress");
      if (fraction !== null) bar.value = fraction;
      bar.setAttribute("aria-label", text);
      this.footer.replaceChildren(bar, text);
      this.footer.dataset.state = "working";
    };
    const size = this.formatSize();
    return {
      loading: (fraction) => show(fraction < 1 ? `loading the model (${size})` : "starting the model", fraction),
      working: (done, total) =>
        show(total === null ? `reading window ${done}` : `reading text ${done} of ${total}`, total && done / total),
    };
  }

  private formatSize(): string {
    const megabytes = (this.model?.bytes ?? 0) / 1e6;
    return `${megabytes < 10 ? megabytes.toFixed(1) : Math.round(megabytes)} MB`;
  }

  private recordTime(result: AnswerReply): void {
    if (result.numRuns === 0) return;
    if (this.first === undefined) {
      this.first = result.loadMilliseconds + result.milliseconds;
      return;
    }
    this.times.push(result.milliseconds);
    if (this.times.length > NUM_TIMES) this.times.shift();
  }

  private showStatus(numThreads: number): void {
    const parts: string[] = [];
    if (this.first !== undefined) {
      parts.push(`first answer ${formatMilliseconds(this.first)}`);
      this.footer.dataset.first = String(this.first);
    }
    if (this.times.length) {
      const typical = [...this.times].sort((a, b) => a - b)[this.times.length >> 1]!;
      parts.push(`typical ${formatMilliseconds(typical)}`);
      this.footer.dataset.typical = String(typical);
    }
    const { runtime, quantization } = this.model!;
    const threads = numThreads === 1 ? "1 thread" : `${numThreads} threads`;
    const precision = quantization.replace("dynamic_", "");
    const model = `model ${this.formatSize()}, ${precision}, ${RUNTIMES[runtime] ?? runtime}, ${threads}`;
    this.footer.replaceChildren(make("span", { className: "times" }, parts.join(", ")), make("span", {}, model));
    this.footer.dataset.state = "ready";
  }

  private showError(message: string): void {
    const text = make("p", { className: "error" }, message);
    text.setAttribute("role", "alert");
    this.footer.replaceChildren(text);
    this.footer.dataset.state = "error";
  }

  private showMissing(): void {
    const code = (text: string) => make("code", {}, text);
    const command = code(`npm run models -- ${this.view.task}=FOLDER`);
    const notice = make("p", { className: "notice" }, "This page has no model for this task yet: run ", command);
    notice.append(" and ", code("npm run build"), ", then reload. FOLDER is the ", code("tflite/"), " or ", code("onnx/"));
    notice.append(" folder that ", code("bert-keras export"), " wrote.");
    find(".columns", this.section).replaceChildren(notice);
    this.footer.remove();
  }
}
