// A headless Chromium with a page of another origin. It uploads, streams, answers a form, and takes a stream up again
// after the scheduler was restarted.
import { createServer } from "node:http";
import { createInterface } from "node:readline";
import puppeteer from "puppeteer-core";
import { USER, V1, key, must, works } from "./report.mjs";

const orders = createInterface({ input: process.stdin })[Symbol.asyncIterator]();

/** Asks the program that runs this script to restart the scheduler, and waits until it serves again. */
async function restartScheduler() {
  process.stdout.write("restart-scheduler\n");
  must((await orders.next()).value === "done", "the scheduler does not start again");
}

/** The code of the page. It runs in the browser. */
function page(v1, user) {
  const headers = (app, more = {}) => ({ Authorization: `Bearer ${app}`, ...more });
  const json = { "Content-Type": "application/json" };

  async function call(app, method, path, body, more = {}) {
    const form = body instanceof FormData;
    const response = await fetch(v1 + path, {
      method,
      headers: headers(app, { ...(body && !form ? json : {}), ...more }),
      body: body && !form ? JSON.stringify(body) : body,
    });
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${await response.text()}`);
    return response;
  }

  /** Reads a stream of events until it ends, breaks, or `enough` says so. Returns the events and the last id. */
  async function read(response, enough = () => false) {
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let text = "", last = "";
    const events = [];
    try {
      for (;;) {
        const { value, done } = await reader.read();
        if (done) break;
        text += value;
        const frames = text.split("\n\n");
        text = frames.pop();
        for (const frame of frames) {
          for (const line of frame.split("\n")) {
            if (line.startsWith("id:")) last = line.slice(3).trim();
            if (line.startsWith("data:")) events.push(JSON.parse(line.slice(5)));
          }
        }
        if (await enough(events)) return { events, last, reader };
      }
    } catch (error) {
      return { events, last, broken: String(error) };
    }
    return { events, last };
  }

  window.parameters = async (app) => (await call(app, "GET", `/parameters?user=${user}`)).json();
  window.missingKey = async () => {
    const response = await fetch(`${v1}/parameters`);
    return { status: response.status, body: await response.json() };
  };
  window.upload = async (app) => {
    const form = new FormData();
    form.append("user", user);
    form.append("file", new Blob(["stones and water"], { type: "text/plain" }), "paper.txt");
    return (await call(app, "POST", "/files/upload", form)).json();
  };
  window.chat = async (app, id) => {
    const files = [{ type: "document", transfer_method: "local_file", upload_file_id: id }];
    const body = { inputs: {}, query: "Hello", user, response_mode: "streaming", files };
    return (await read(await call(app, "POST", "/chat-messages", body))).events;
  };
  window.answerForm = async (app) => {
    const run = { inputs: { order: "17" }, user, response_mode: "streaming" };
    const asked = (await read(await call(app, "POST", "/workflows/run", run))).events;
    const form = asked.find((event) => event.event === "human_input_required");
    const path = `/form/human_input/${form.data.form_token}`;
    await (await call(app, "GET", path)).json();
    await call(app, "POST", path, { inputs: { note: "by ship" }, action: "yes", user });
    const rest = await read(await call(app, "GET", `/workflow/${form.task_id}/events?user=${user}`));
    return rest.events.at(-1);
  };
  // A stream that breaks in the middle. `broken` resolves once it has begun; `continued` takes it up again.
  window.begin = async (app) => {
    const body = { inputs: { text: "Speak slowly" }, user, response_mode: "streaming" };
    const response = await call(app, "POST", "/workflows/run?event_ids=true", body);
    let begun;
    const started = new Promise((resolve) => { begun = resolve; });
    window.first = read(response, (events) => {
      if (events.filter((event) => event.event === "text_chunk").length >= 2) begun();
      return false;
    });
    await started;
  };
  window.continued = async (app) => {
    const first = await window.first;
    const path = `/workflow/${first.events[0].workflow_run_id}/events?user=${user}`;
    const again = await read(await call(app, "GET", path, undefined, { "Last-Event-ID": first.last }));
    const text = [...first.events, ...again.events].filter((event) => event.event === "text_chunk").map((event) => event.data.text);
    return { text: text.join(""), before: first.events.length, last: again.events.at(-1) };
  };
}

const server = createServer((_request, response) => {
  response.setHeader("Content-Type", "text/html");
  response.end(`<!doctype html><title>client</title><script>(${page})(${JSON.stringify(V1)}, ${JSON.stringify(USER)})</script>`);
});
await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
// The sandbox of Chromium needs rights that root and containers do not have; the page is our own.
const browser = await puppeteer.launch({
  executablePath: process.env.TIDEMILL_CHROMIUM,
  args: ["--no-sandbox", "--disable-dev-shm-usage"],
});
try {
  const tab = await browser.newPage();
  await tab.goto(`http://127.0.0.1:${server.address().port}/`);
  const [chat, flow, form] = ["chat", "flow", "form"].map(key);
  const inPage = (name, ...given) => tab.evaluate((name, given) => window[name](...given), name, given);

  await works("GET /parameters", async () => must((await inPage("parameters", chat)).opening_statement, "no opening statement"));
  await works("an error without a key can be read", async () => {
    const { status, body } = await inPage("missingKey");
    must(status === 401 && body.code === "unauthorized", { status, body });
  });
  const upload = await works("POST /files/upload", () => inPage("upload", chat));
  await works("POST /chat-messages, streaming, with the file", async () => {
    const names = (await inPage("chat", chat, upload.id)).map((event) => event.event);
    must(names[0] === "workflow_started" && names.includes("message_end"), names);
  });
  await works("a form is shown, answered, and the run followed", async () => {
    const last = await inPage("answerForm", form);
    must(last.event === "workflow_finished" && last.data.outputs.note === "by ship", last);
  });
  await works("a stream is taken up again after the scheduler was restarted", async () => {
    await inPage("begin", flow);
    await restartScheduler();
    const { text, before, last } = await inPage("continued", flow);
    must(last.event === "workflow_finished" && last.data.status === "succeeded", last);
    // The workflow has a second output, which a line break separates from the first.
    must(text.trim() === last.data.outputs.text.trim(), `the text of the stream differs after ${before} events: ${JSON.stringify(text)} and ${JSON.stringify(last.data.outputs.text)}`);
  });
} finally {
  await browser.close();
  server.close();
}
process.exit(0);
