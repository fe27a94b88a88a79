// One request at a time, with the API key where the server wants one.

import { Failed, chunks, model } from "./api.js";

export class Asking {
  constructor(dialog) {
    this.model = null;
    this._dialog = dialog;
    this._key = null; // in memory only: it leaves with the page
    this._control = null;
  }

  stop() {
    this._control?.abort();
  }

  /** Whom the server answers as; its context, in tokens. Throws Failed, or an AbortError. */
  async meet() {
    const served = await this._stoppable(() => this._unlocked((key) => model(key, this._signal)));
    this.model = served.name;
    return served.context;
  }

  /** Fills `answer`; why it ended: "stop" or "length". Throws Failed, or an AbortError. */
  async stream(answer, body) {
    return await this._stoppable(() => this._fitting(answer, body));
  }

  get _signal() {
    return this._control.signal;
  }

  async _stoppable(work) {
    this._control = new AbortController();
    try {
      return await work();
    } finally {
      this._control = null;
    }
  }

  /** `work(key)`, with the key asked for until the server takes one or the user gives up. */
  async _unlocked(work) {
    let why = "It is kept in this page's memory and forgotten when you leave.";
    for (;;) {
      try {
        return await work(this._key);
      } catch (error) {
        if (error.code !== "invalid_api_key") throw error;
        if (this._key !== null) why = "The server does not take this key.";
        const key = await this._asked(why);
        if (key === null) throw error;
        this._key = key;
      }
    }
  }

  /** Where the context has room for an answer, but not for the longest one: all that is left. */
  async _fitting(answer, body) {
    answer.settings = body;
    try {
      return await this._unlocked((key) => this._one(answer, body, key));
    } catch (error) {
      if (error.code !== "context_length_exceeded" || error.param !== "max_tokens") throw error;
      const { max_tokens: _, ...rest } = body;
      return await this._unlocked((key) => this._one(answer, rest, key));
    }
  }

  async _one(answer, body, key) {
    let reason = null;
    const asked = { model: this.model, ...body };
    for await (const chunk of chunks(asked, key, this._signal)) {
      const choice = chunk.choices[0];
      if (choice?.dflash) answer.take(choice.dflash);
      if (chunk.metrics) answer.finish(chunk.metrics);
      reason = choice?.finish_reason ?? reason;
    }
    if (reason === null) throw new Failed("the answer has no end", { code: "gone" });
    answer.complete = true;
    return reason;
  }

  /** The key that the user enters, or null. */
  _asked(why) {
    const [form, input] = [this._dialog.querySelector("form"), this._dialog.querySelector("input")];
    this._dialog.querySelector("#locked-why").textContent = why;
    input.value = "";
    return new Promise((settle) => {
      const done = (key) => {
        form.onsubmit = this._dialog.onclose = null;
        this._dialog.close();
        input.value = "";
        settle(key);
      };
      form.onsubmit = (event) => {
        event.preventDefault();
        done(input.value);
      };
      this._dialog.querySelector("#no-key").onclick = () => done(null);
      this._dialog.onclose = () => done(null); // Escape
      this._dialog.showModal();
    });
  }
}
