// dify-client, the client for Node that Dify published.
import { readFileSync } from "node:fs";
import { ChatClient, CompletionClient } from "dify-client";
import { USER, V1, key, must, works } from "./report.mjs";

const chat = new ChatClient(key("chat"), V1);
const flow = new CompletionClient(key("flow"), V1);
const completion = new CompletionClient(key("completion"), V1);

/** Reads a stream by frames, each with one `data:` line. */
async function events(response) {
  let text = "";
  for await (const piece of response.data) text += piece;
  const frames = text.split("\n\n").filter((frame) => frame.trim() && !frame.startsWith("event: ping"));
  return frames.map((frame) => JSON.parse(frame.slice("data: ".length)).event);
}

function form() {
  const body = new FormData();
  body.append("user", USER);
  body.append("file", new Blob([readFileSync(process.env.TIDEMILL_PAPER)], { type: "text/plain" }), "paper.txt");
  return body;
}

await works("getApplicationParameters", async () =>
  must((await chat.getApplicationParameters(USER)).data.system_parameters, "no limits"));
const upload = await works("fileUpload", async () => (await chat.fileUpload(form())).data);
const first = await works("createChatMessage", async () => (await chat.createChatMessage({}, "Hello", USER)).data);
await works("createChatMessage, streaming", async () => {
  const found = await events(await chat.createChatMessage({}, "Hello", USER, true));
  must(found.includes("workflow_started") && found.includes("message_end"), found);
});
await works("createChatMessage, with a file", async () => {
  const file = { type: "document", transfer_method: "local_file", upload_file_id: upload.id };
  const answer = (await chat.createChatMessage({}, "What is in it?", USER, false, null, [file])).data;
  const page = (await chat.getConversationMessages(USER, answer.conversation_id)).data;
  must(page.data[0].message_files[0]?.belongs_to === "user", page.data[0].message_files);
});
await works("getConversationMessages", async () =>
  must((await chat.getConversationMessages(USER, first.conversation_id, null, 5)).data.data.length === 1, "another number"));
await works("getConversations", async () => must((await chat.getConversations(USER)).data.data.length, "none"));
await works("renameConversation", async () =>
  must((await chat.renameConversation(first.conversation_id, "Mills", USER, false)).data.name === "Mills", "another name"));
await works("messageFeedback", () => chat.messageFeedback(first.message_id, "like", USER));
await works("deleteConversation", () => chat.deleteConversation(first.conversation_id, USER));
await works("createCompletionMessage", async () =>
  must((await completion.createCompletionMessage({ query: "mills" }, USER)).data.answer, "no answer"));
await works("createCompletionMessage, streaming", async () =>
  must((await events(await completion.createCompletionMessage({ query: "mills" }, USER, true))).includes("message_end"), "no end"));
await works("runWorkflow", async () =>
  must((await flow.runWorkflow({ text: "Hello" }, USER)).data.data.status === "succeeded", "another status"));
await works("runWorkflow, streaming", async () =>
  must((await events(await flow.runWorkflow({ text: "Hello" }, USER, true))).at(-1) === "workflow_finished", "no end"));
