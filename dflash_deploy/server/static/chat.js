// The conversation: asks, shows, compares, and says what went wrong.

import { Asking } from "./asking.js";
import { speed, verdict } from "./numbers.js";
import { Turn, element, following } from "./view.js";

const at = (id) => document.getElementById(id);
const [form, question, send, stop] = [at("ask"), at("question"), at("send"), at("stop")];
const asking = new Asking(at("locked"));
let history = []; // the messages that the next question follows
let plainSpeed = null; // of plain decoding, where it was measured
let context = null;
let busy = false;
let meeting = null; // while the model's name is asked for

/** Asks for the model's name; who sends a question meanwhile waits for the same answer. */
function begin() {
  meeting ??= met().finally(() => { meeting = null; });
  return meeting;
}

async function met() {
  try {
    context = await asking.meet();
    at("model").textContent = `${asking.model}, context of ${context} tokens`;
  } catch (error) {
    at("model").textContent = "no model";
    complain(error);
  }
}

async function ask(text) {
  running(true);
  const before = history;
  if (asking.model === null) await begin();
  if (asking.model === null || history !== before) {
    running(false);
    if (history === before) giveBack(text); // else a new conversation has begun
    return;
  }
  const messages = [...history, { role: "user", content: text }];
  const turn = new Turn(text);
  const answer = turn.answer("DFlash", plainSpeed);
  at("conversation").append(turn.root);
  turn.root.scrollIntoView({ block: "end" });
  const failure = await run(answer, { messages });
  if (!turn.root.isConnected) return; // a new conversation has begun
  if (failure && !answer.text) {
    turn.root.remove();
    giveBack(text);
    return;
  }
  history = [...messages, { role: "assistant", content: answer.text }];
  if (answer.complete && answer.tally.drafted) offerComparison(turn, answer, messages);
}

function offerComparison(turn, answer, messages) {
  const settings = { ...answer.settings };
  const button = element("button", "quiet", "Compare with plain decoding");
  button.addEventListener("click", async () => {
    if (busy) return;
    button.hidden = true;
    question.focus({ preventScroll: true });
    const plain = turn.answer("Plain decoding");
    await run(plain, { messages, speculative: false, ...settings });
    if (!plain.complete) {
      plain.root.remove();
      button.hidden = false;
      return;
    }
    plainSpeed = speed(plain.tally) ?? plainSpeed;
    const words = verdict(answer, plain, settings.temperature);
    following(() => turn.add(element("p", "verdict", words)));
    say(words);
  });
  following(() => turn.add(button));
}

/** Streams into `answer`; what went wrong, or null. */
async function run(answer, body) {
  at("notice").hidden = true;
  running(true);
  say("Answering");
  try {
    const reason = await asking.stream(answer, { ...chosen(), ...body });
    answer.end(reason === "length" ? cutOff(answer) : "");
    say(`Answer: ${answer.text} ${answer.numbersInWords()}`);
    return null;
  } catch (error) {
    if (error.name === "AbortError") {
      answer.end("Stopped.");
      say("Stopped");
    } else {
      answer.end("Broken off.");
      complain(error);
    }
    return error;
  } finally {
    running(false);
  }
}

function chosen() {
  return {
    max_tokens: at("longest").valueAsNumber,
    temperature: at("temperature").valueAsNumber,
  };
}

function cutOff(answer) {
  return answer.tally.tokens < answer.settings.max_tokens
    ? "Cut off: the context is full."
    : `Cut off after ${answer.tally.tokens} tokens: Settings can allow more.`;
}

function running(yes) {
  busy = yes;
  send.hidden = yes;
  stop.hidden = !yes;
  if (document.activeElement === document.body) question.focus({ preventScroll: true });
}

function giveBack(text) {
  if (!question.value) question.value = text;
  question.focus({ preventScroll: true });
}

function complain(error) {
  if (error.name === "AbortError") return;
  const known = {
    gone: "The server does not answer. Start it again, then send once more; your conversation is still here.",
    context_length_exceeded: `This no longer fits the model's context of ${context} tokens. Start a new conversation, or ask for less.`,
    invalid_api_key: "The server asks for its API key. Send again to enter it.",
    model_not_found: "Another model answers here by now. Send again to ask that one.",
  };
  if (error.code === "model_not_found") asking.model = null; // its name is asked for again
  at("notice").textContent = known[error.code] ?? `The server says: ${error.message}.`;
  following(() => { at("notice").hidden = false; });
}

function say(words) {
  at("status").textContent = words;
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  const text = question.value.trim();
  if (busy || !text) return;
  question.value = "";
  question.focus({ preventScroll: true });
  ask(text);
});

question.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  form.requestSubmit();
});

// A wrong number in the folded settings could not be pointed at.
form.addEventListener("invalid", () => { at("settings").open = true; }, true);

stop.addEventListener("click", () => {
  asking.stop();
  question.focus({ preventScroll: true });
});

at("clear").addEventListener("click", () => {
  asking.stop();
  history = [];
  at("conversation").replaceChildren();
  at("notice").hidden = true;
  say("New conversation");
  question.focus();
});

begin();
