"""Asks the model once, calls its first tool once, and says both. "call NAME" calls a tool that it was not given."""

from dify_plugin.entities.model.llm import LLMModelConfig
from dify_plugin.entities.model.message import UserPromptMessage
from dify_plugin.entities.tool import ToolInvokeMessage, ToolProviderType
from dify_plugin.interfaces.agent import AgentModelConfig, AgentStrategy, ToolEntity

STATUS = ToolInvokeMessage.LogMessage.LogStatus


class EchoStrategy(AgentStrategy):
    def _invoke(self, parameters):
        if parameters["query"].startswith("call "):
            yield from self.call(parameters["query"].removeprefix("call "))
            return
        model = AgentModelConfig(**parameters["model"])
        tools = [ToolEntity(**tool) for tool in parameters.get("tools") or []]
        round_log = self.create_log_message("ROUND 1", {}, status=STATUS.START)
        yield round_log
        config = LLMModelConfig(**model.model_dump(mode="json"))
        prompt = [*model.history_prompt_messages, UserPromptMessage(content=parameters["query"])]
        for chunk in self.session.model.llm.invoke(model_config=config, prompt_messages=prompt, stream=True):
            if chunk.delta.message.content:
                yield self.create_text_message(chunk.delta.message.content)
        for tool in tools[:1]:
            answers = self.session.tool.invoke(
                ToolProviderType(tool.provider_type),
                tool.identity.provider,
                tool.identity.name,
                dict(tool.runtime_parameters),
            )
            for answer in answers:
                if answer.type == ToolInvokeMessage.MessageType.TEXT:
                    yield self.create_text_message(f" | {answer.message.text}")
        rounds = int(parameters["maximum_iterations"])
        yield self.finish_log_message(round_log, data={"rounds": rounds, "tools": [tool.identity.name for tool in tools]})
        yield self.create_json_message({"execution_metadata": {"total_tokens": 1}})
        yield self.create_json_message({"rounds": rounds})

    def call(self, name):
        try:
            provider = "tidemill/many/many"
            for answer in self.session.tool.invoke(ToolProviderType("builtin"), provider, name, {"text": "ab"}):
                if answer.type == ToolInvokeMessage.MessageType.TEXT:
                    yield self.create_text_message(answer.message.text)
        except Exception as error:
            yield self.create_text_message(f"refused: {error}")
