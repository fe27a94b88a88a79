// The server's API as this page needs it: the model's name, and one streamed answer.

/** A request that was refused, or broke; `code` is the server's own, or "gone". */
export class Failed extends Error {
  constructor(message, { status = 0, code = null, param = null } = {}) {
    super(message);
    Object.assign(this, { status, code, param });
  }
}

/** The model that this server answers as, and its context in tokens. */
export async function model(key, signal) {
  const response = await request("v1/models", { headers: headers(key), signal });
  const { data } = await response.json();
  return { name: data[0].id, context: data[0].max_model_len };
}

/**
 * The chunks of one chat answer, each as soon as it is there.
 * Throws Failed, or an AbortError if `signal` says stop.
 */
export async function* chunks(body, key, signal) {
  const response = await request("v1/chat/completions", {
    method: "POST",
    headers: { "Content-Type": "application/json", ...headers(key) },
    body: JSON.stringify({
      ...body,
      stream: true,
      stream_options: { include_usage: true, include_dflash: true },
    }),
    signal,
  });
  for await (const data of events(response.body)) {
    if (data === "[DONE]") return;
    const chunk = JSON.parse(data);
    if (chunk.error) throw new Failed(chunk.error.message, chunk.error);
    yield chunk;
  }
  throw new Failed("the connection broke", { code: "gone" });
}

function headers(key) {
  return key === null ? {} : { Authorization: `Bearer ${key}` };
}

async function request(path, options) {
  const response = await reached(fetch(path, { cache: "no-store", ...options }));
  if (response.ok) return response;
  const { error } = await response.json().catch(() => ({}));
  const message = error?.message ?? `the server answered ${response.status}`;
  throw new Failed(message, { ...error, status: response.status });
}

/** The data of each server-sent event: this server writes one line an event. */
async function* events(stream) {
  const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
  let held = "";
  try {
    for (;;) {
      const { done, value } = await reached(reader.read());
      if (done) return;
      const parts = (held + value).split("\n\n");
      held = parts.pop();
      for (const part of parts) yield part.replace(/^data: /, "");
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

async function reached(promise) {
  try {
    return await promise;
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Failed("the server does not answer", { code: "gone" });
  }
}
