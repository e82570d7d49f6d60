// The conversation on the screen.

import { canContinue, type Answer, type Turn } from "./conversation.js";
import { announce, byId, h, icon } from "./dom.js";
import * as format from "./format.js";
import { sentence } from "./panel.js";
import { Prose } from "./prose.js";

export interface ChatActions {
  regenerate(): void;
  goOn(): void;
  suggest(text: string): void;
}

interface Shown {
  turn: Turn;
  article: HTMLElement;
  prose: Prose;
  foot: HTMLElement;
}

const REMARKS: Partial<Record<Answer["state"], string>> = {
  interrupted: "Interrupted.",
  stopped: "Stopped.",
  "max-tokens": "Reached the longest answer that the settings allow.",
  "context-full": "The model's context is full.",
};

export class Chat {
  #scroller = byId("conversation", "section");
  #list = byId("turns", "div");
  #welcome = byId("welcome", "div");
  #shown: Shown[] = [];
  #actions: ChatActions;
  #frame = 0;
  /** Whether the end is in view and is to stay there. */
  #follows = true;
  #height = 0;

  constructor(actions: ChatActions) {
    this.#actions = actions;
    this.#scroller.addEventListener("scroll", () => {
      const { scrollTop, scrollHeight, clientHeight } = this.#scroller;
      // If the height changed, the browser scrolled, not the user.
      if (clientHeight === this.#height) this.#follows = scrollHeight - scrollTop - clientHeight < 48;
    });
    new ResizeObserver(() => {
      this.#height = this.#scroller.clientHeight;
      this.#follow();
    }).observe(this.#scroller);
  }

  /** Shows all of `turns`; `idle` is whether replies may be requested. */
  show(turns: readonly Turn[], idle: boolean): void {
    this.#shown = turns.map((turn) => this.#shown.find((shown) => shown.turn === turn) ?? build(turn));
    this.#place(this.#shown.map((shown) => shown.article));
    for (const shown of this.#shown) this.#refresh(shown, idle && shown === this.#shown.at(-1));
    this.#follow();
  }

  /** Updates the last reply, at most once per frame. */
  grow(): void {
    this.#frame ||= requestAnimationFrame(() => {
      this.#frame = 0;
      const last = this.#shown.at(-1);
      if (!last) return;
      last.prose.follow(textOf(last.turn));
      this.#follow();
    });
  }

  /** Scrolls to the end. */
  toEnd(): void {
    this.#follows = true;
    this.#follow();
  }

  /** The text of an empty conversation. */
  welcome(content: { title: string; text: string; suggestions: readonly string[] } | null): void {
    this.#welcome.hidden = content === null;
    if (!content) return;
    const mark = icon("mark");
    mark.classList.add("mark", "large");
    const suggestions = content.suggestions.map((text) =>
      h("button", { type: "button", class: "suggestion", onclick: () => this.#actions.suggest(text) }, text),
    );
    this.#welcome.replaceChildren(
      mark,
      h("h2", {}, content.title),
      h("p", { class: "lead" }, content.text),
      h("div", { class: "suggestions" }, ...suggestions),
    );
  }

  /** Leaves articles that are in place untouched: moving one would take the focus from its content. */
  #place(articles: readonly HTMLElement[]): void {
    articles.forEach((article, index) => {
      if (this.#list.children[index] !== article) this.#list.insertBefore(article, this.#list.children[index] ?? null);
    });
    while (this.#list.children.length > articles.length) this.#list.lastElementChild?.remove();
  }

  #refresh(shown: Shown, isLast: boolean): void {
    const { turn, foot, article } = shown;
    const { answer } = turn;
    draw(shown);
    article.classList.toggle("last", isLast);
    const writing = answer.state === "writing";
    const focused = foot.contains(document.activeElement) ? (document.activeElement as HTMLElement).dataset.testid : undefined;
    const remark = answer.state === "failed" ? sentence(answer.problem ?? "it failed") : REMARKS[answer.state];
    foot.replaceChildren(
      ...(remark && !writing ? [h("p", { class: answer.state === "failed" ? "remark problem" : "remark", "data-testid": "remark" }, remark)] : []),
      ...(writing ? [] : [this.#tools(turn, isLast)]),
    );
    if (focused) foot.querySelector<HTMLElement>(`[data-testid="${focused}"]`)?.focus();
  }

  #tools(turn: Turn, isLast: boolean): HTMLElement {
    const whole = textOf(turn);
    const rate = turn.answer.stats?.tokensPerSecond ?? null;
    const goesOn = isLast && canContinue(turn.answer);
    return h(
      "div",
      { class: "turn-tools" },
      goesOn && h("button", { type: "button", class: "labelled", "data-testid": "continue", onclick: () => this.#actions.goOn() }, icon("continue"), "Continue"),
      whole !== "" && copyButton(whole, turn.style === "text" ? "Copy the text" : "Copy the answer"),
      isLast && h("button", { type: "button", class: "tool", "aria-label": "Write the answer again", title: "Write it again", "data-testid": "regenerate", onclick: () => this.#actions.regenerate() }, icon("again")),
      rate !== null && h("span", { class: "turn-stats" }, format.rate(rate)),
    );
  }

  #follow(): void {
    if (this.#follows) this.#scroller.scrollTop = this.#scroller.scrollHeight;
  }
}

function build(turn: Turn): Shown {
  const isText = turn.style === "text";
  const prose = new Prose(isText ? turn.prompt.length : 0);
  const foot = h("div", { class: "turn-foot" });
  const question = h(
    "div",
    { class: "question", "data-testid": "question" },
    h("h3", { class: "hidden" }, "You"),
    h("p", {}, turn.prompt),
    h("div", { class: "question-tools" }, copyButton(turn.prompt, "Copy your message")),
  );
  const answer = h("div", { class: "answer" }, h("h3", { class: "hidden" }, isText ? "Text" : "Answer"), prose.element, foot);
  const article = h("article", { class: `turn ${turn.style}`, "data-testid": "turn", "aria-label": isText ? "Text" : "Question and answer" }, !isText && question, answer);
  return { turn, article, prose, foot };
}

/** The text of a turn that is shown as one. */
function textOf({ style, prompt, answer }: Turn): string {
  return style === "text" ? prompt + answer.text : answer.text;
}

function draw({ turn, article, prose }: Shown): void {
  const { answer } = turn;
  prose.show(textOf(turn));
  article.dataset.answer = answer.state;
  article.setAttribute("aria-busy", String(answer.state === "writing"));
  prose.element.dataset.testid = "answer";
  // For tests. It is long, so it is not updated with every token.
  if (answer.state === "writing") delete prose.element.dataset.tokens;
  else prose.element.dataset.tokens = answer.tokens.join(" ");
}

function copyButton(text: string, label: string): HTMLButtonElement {
  const button = h("button", { type: "button", class: "tool", "aria-label": label, title: label, "data-testid": "copy" }, icon("copy"));
  button.addEventListener("click", () => {
    navigator.clipboard.writeText(text).then(
      () => confirm(button, "done", "Copied"),
      () => confirm(button, "close", "The browser did not allow copying"),
    );
  });
  return button;
}

function confirm(button: HTMLButtonElement, name: string, said: string): void {
  announce(said);
  button.replaceChildren(icon(name));
  setTimeout(() => button.replaceChildren(icon("copy")), 1500);
}
