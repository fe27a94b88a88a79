// Questions and answers as they stand on the page. What anybody wrote is text, never markup.

import { NOTHING, counted, rows, timed } from "./numbers.js";

// Laying out a long answer costs more than a step, on a machine that decodes beside it.
const PAUSE = 80; // milliseconds between two drawings

export function element(name, className, text = "") {
  const made = document.createElement(name);
  if (className) made.className = className;
  made.textContent = text;
  return made;
}

/** Keeps the end in sight for those who were there, and leaves others where they read. */
export function following(change) {
  const page = document.documentElement;
  const atEnd = page.scrollHeight - page.clientHeight - page.scrollTop < 60;
  change();
  if (atEnd) page.scrollTop = page.scrollHeight;
}

/** One question, its answers side by side, and what comparing them said. */
export class Turn {
  constructor(question) {
    this.root = element("article", "turn");
    const asked = element("h2", "question", question);
    asked.dir = "auto";
    this.answers = element("div", "answers");
    this.root.append(asked, this.answers);
  }

  answer(title, plainSpeed = null) {
    const answer = new Answer(title, plainSpeed);
    this.answers.append(answer.root);
    return answer;
  }

  add(node) {
    this.root.append(node);
    return node;
  }
}

/** One answer while it comes, and after. */
export class Answer {
  constructor(title, plainSpeed) {
    this.text = "";
    this.tally = NOTHING;
    this._fresh = []; // spans that are not drawn yet
    this._drawing = null;
    this._plainSpeed = plainSpeed;
    this.root = element("section", "answer");
    this.root.setAttribute("aria-label", `Answer, ${title}`);
    this.root.setAttribute("aria-busy", "true");
    this._words = element("p", "text");
    this._words.dir = "auto";
    this._numbers = element("dl", "numbers");
    this._ending = element("p", "ending");
    this._ending.hidden = true;
    this.root.append(element("h3", "", title), this._words, this._numbers, this._ending);
  }

  take(step) {
    this.tally = counted(this.tally, step, performance.now());
    for (const piece of step.pieces) {
      this.text += piece.text;
      this._fresh.push(element("span", piece.from === "draft" ? "draft" : "", piece.text));
    }
    this._drawing ??= setTimeout(() => this._draw(), PAUSE);
  }

  finish(metrics) {
    this.tally = timed(this.tally, metrics);
  }

  end(why) {
    this._ending.textContent = why;
    this._ending.hidden = !why;
    this._draw();
    this.root.removeAttribute("aria-busy");
  }

  numbersInWords() {
    return rows(this.tally, null).map((row) => row.join(": ")).join(", ");
  }

  _draw() {
    clearTimeout(this._drawing);
    this._drawing = null;
    following(() => {
      this._words.append(...this._fresh.splice(0));
      this._tell();
    });
  }

  _tell() {
    const shown = rows(this.tally, this._plainSpeed);
    this._numbers.replaceChildren(
      ...shown.map(([label, value]) => {
        const pair = element("div");
        pair.append(element("dt", "", label), element("dd", "", value));
        return pair;
      }),
    );
  }
}
