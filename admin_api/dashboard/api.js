// Asking the sidecar that this page comes from. A token is kept for as long as the tab lives.

const KEY = "pulsar-quota-token";

/** The sidecar's no, with its reason. */
export class Problem extends Error {
  constructor(status, reason) {
    super(reason);
    this.status = status;
  }
}

export const setToken = (token) =>
  token ? sessionStorage.setItem(KEY, token) : sessionStorage.removeItem(KEY);

function headers(more = {}) {
  const token = sessionStorage.getItem(KEY);
  return token ? { Authorization: `Bearer ${token}`, ...more } : more;
}

/** The answer to a request, whole; a Problem when it is none. */
export async function ask(path, { method = "GET", body, condition, signal, further = {} } = {}) {
  let answer;
  try {
    answer = await fetch(path, {
      method,
      signal,
      headers: headers({
        ...(body === undefined ? {} : { "Content-Type": "application/json" }),
        ...(condition ? { "If-Match": condition } : {}),
        ...further,
      }),
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(0, "The sidecar does not answer");
  }
  if (!answer.ok) {
    const told = await answer.json().catch(() => ({}));
    throw new Problem(answer.status, told.reason ?? `The sidecar answered ${answer.status}`);
  }
  return answer;
}

/** The JSON of a GET. */
export const read = async (path, signal) => (await ask(path, { signal })).json();

/**
 * Follow the event stream until the signal says stop; comes back by itself when it breaks off.
 *
 * `onAlive` is called when it begins and with each sign of life, `onBroken` with the reason when it ends.
 */
export async function follow(path, onEvent, onAlive, onBroken, signal) {
  let last = "";
  while (!signal.aborted) {
    let why = "The stream broke off";
    try {
      const answer = await ask(path, { signal, further: { "Last-Event-ID": last } });
      onAlive();
      for await (const event of events(answer.body)) {
        onAlive();
        if (event.id) last = event.id;
        if (event.data && event.id) onEvent(JSON.parse(event.data));
      }
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof Problem) why = error.message;
    }
    onBroken(why);
    await new Promise((done) => setTimeout(done, 2_000));
  }
}

async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    text += value;
    const blocks = text.split("\n\n");
    text = blocks.pop();
    for (const block of blocks) {
      yield Object.fromEntries(
        block.split("\n").filter((line) => !line.startsWith(":")).map((line) => {
          const at = line.indexOf(":");
          return [line.slice(0, at), line.slice(at + 1).trimStart()];
        }),
      );
    }
  }
}
