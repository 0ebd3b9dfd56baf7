"""Asks its host for one thing, and says what comes back."""

import json

from dify_plugin import Tool
from dify_plugin.entities.model.llm import LLMModelConfig
from dify_plugin.entities.model.message import PromptMessageTool, UserPromptMessage
from dify_plugin.entities.model.text_embedding import TextEmbeddingModelConfig
from dify_plugin.entities.tool import ToolInvokeMessage

MODEL = {"provider": "langgenius/openai/openai", "model": "gpt-4o"}


class Ask(Tool):
    def _invoke(self, tool_parameters):
        what, text = tool_parameters["what"], tool_parameters.get("text", "")
        try:
            yield from getattr(self, f"ask_{what}")(text)
        except Exception as error:
            yield self.create_text_message(f"refused: {error}")

    def ask_chat(self, text):
        pieces, tokens, calls = [], 0, []
        config = LLMModelConfig(**MODEL, mode="chat", completion_params={"temperature": 0})
        tool = PromptMessageTool(name="f", description="for tests", parameters={"type": "object", "properties": {}})
        tools = [tool] if text.startswith("tool") else None
        prompt = [UserPromptMessage(content=text)]
        for chunk in self.session.model.llm.invoke(config, prompt, tools=tools, stream=True):
            if chunk.delta.message.content:
                pieces.append(chunk.delta.message.content)
            calls += [call.function.name for call in chunk.delta.message.tool_calls]
            if chunk.delta.usage:
                tokens = chunk.delta.usage.total_tokens
        yield self.create_text_message("".join(pieces))
        yield self.create_json_message({"pieces": len(pieces), "tokens": tokens, "calls": calls})

    def ask_whole(self, text):
        config = LLMModelConfig(**MODEL, mode="chat", completion_params={})
        result = self.session.model.llm.invoke(config, [UserPromptMessage(content=text)], stream=False)
        yield self.create_text_message(result.message.content)
        yield self.create_json_message({"tokens": result.usage.total_tokens})

    def ask_vectors(self, text):
        config = TextEmbeddingModelConfig(provider=MODEL["provider"], model="text-embedding-3-small")
        result = self.session.model.text_embedding.invoke(config, [text, "another"])
        yield self.create_json_message({"vectors": len(result.embeddings), "tokens": result.usage.total_tokens})

    def ask_storage(self, text):
        storage = self.session.storage
        had = storage.exist("key")
        storage.set("key", text.encode())
        kept = storage.get("key").decode()
        yield self.create_text_message(f"{had} {kept}")

    def ask_large(self, _):
        self.session.storage.set("large", b"x" * 2000)
        yield self.create_text_message("stored")

    def ask_forget(self, _):
        self.session.storage.delete("key")
        yield self.create_text_message(str(self.session.storage.exist("key")))

    def ask_tool(self, text):
        answers = self.session.tool.invoke_builtin_tool("tidemill/many/many", "say", {"text": text, "often": 2})
        kinds = []
        for answer in answers:
            kinds.append(answer.type.value)
            if answer.type == ToolInvokeMessage.MessageType.TEXT:
                yield self.create_text_message(answer.message.text)
            if answer.type == ToolInvokeMessage.MessageType.BLOB:
                yield self.create_json_message({"bytes": len(answer.message.blob)})
        yield self.create_json_message({"kinds": kinds})

    def ask_itself(self, _):
        answers = self.session.tool.invoke_builtin_tool("tidemill/asks/asks", "ask", {"what": "itself"})
        for answer in answers:
            if answer.type == ToolInvokeMessage.MessageType.TEXT:
                yield self.create_text_message(answer.message.text)

    def ask_upload(self, text):
        file = self.session.file.upload("note.txt", text.encode(), "text/plain")
        yield self.create_json_message({"name": file.name, "size": file.size, "has_id": bool(file.id)})

    def ask_extract(self, text):
        parameters = [{"name": "city", "type": "string", "description": "a city", "required": True, "options": []}]
        model = {"provider": MODEL["provider"], "name": MODEL["model"], "mode": "chat", "completion_params": {}}
        found = self.session.workflow_node.parameter_extractor.invoke(parameters, model, text)
        yield self.create_json_message(found.outputs)

    def ask_classify(self, text):
        classes = [{"id": "1", "name": "boats"}, {"id": "2", "name": "mills"}]
        model = {"provider": MODEL["provider"], "name": MODEL["model"], "mode": "chat", "completion_params": {}}
        found = self.session.workflow_node.question_classifier.invoke(classes, model, text)
        yield self.create_json_message(found.outputs)

    def ask_app(self, text):
        asked = json.loads(text)
        yield self.create_json_message(self.session.app.workflow.invoke(asked["app"], asked.get("inputs", {}), "blocking"))

    def ask_stream(self, text):
        asked = json.loads(text)
        events = list(self.session.app.workflow.invoke(asked["app"], asked.get("inputs", {}), "streaming"))
        yield self.create_json_message({"events": [event["event"] for event in events], "last": events[-1]})

    def ask_talk(self, app):
        chat = self.session.app.chat
        first = chat.invoke(app, "a", {}, "blocking")
        second = chat.invoke(app, "b", {}, "blocking", first["conversation_id"])
        other = list(chat.invoke(app, "c", {}, "streaming"))
        same = first["conversation_id"] == second["conversation_id"] != other[0]["conversation_id"]
        answers = [first["answer"], second["answer"], *(event["answer"] for event in other if "answer" in event)]
        yield self.create_json_message({"answers": answers, "same": same, "events": [event["event"] for event in other]})

    def ask_about(self, app):
        yield self.create_json_message(self.session.app.fetch_app(app))
