// dify-ai-provider: Dify as a model of the AI SDK.
import { generateText, streamText } from "ai";
import { createDifyProvider } from "dify-ai-provider";
import { USER, V1, key, must, works } from "./report.mjs";

const dify = createDifyProvider({ baseURL: V1 });
const model = (mode) => dify("chat", { apiKey: key("chat"), inputs: {}, responseMode: mode, logger: false });
const headers = { "user-id": USER };

const first = await works("generateText", async () => {
  const answer = await generateText({ model: model("blocking"), prompt: "Hello", headers });
  must(answer.text, "no text");
  must(answer.providerMetadata.difyWorkflowData.conversationId, answer.providerMetadata);
  must(answer.usage.totalTokens > 0, answer.usage);
  return answer.providerMetadata.difyWorkflowData;
});
await works("generateText, second turn", async () => {
  const answer = await generateText({ model: model("blocking"), prompt: "Again", headers: { ...headers, "chat-id": first.conversationId } });
  must(answer.providerMetadata.difyWorkflowData.conversationId === first.conversationId, "another conversation");
});
await works("streamText", async () => {
  const answer = streamText({ model: model("streaming"), prompt: "Hello", headers });
  let text = "";
  for await (const piece of answer.textStream) text += piece;
  must(text, "no text");
  must((await answer.usage).totalTokens > 0, await answer.usage);
});
