"""An LLM whose answer depends on words of the last message."""

import json
import time

from dify_plugin.entities import I18nObject
from dify_plugin.entities.model import AIModelEntity, FetchFrom, ModelPropertyKey, ModelType
from dify_plugin.entities.model.llm import LLMResult, LLMResultChunk, LLMResultChunkDelta
from dify_plugin.entities.model.message import AssistantPromptMessage, ToolPromptMessage
from dify_plugin.errors.model import (
    CredentialsValidateFailedError,
    InvokeAuthorizationError,
    InvokeBadRequestError,
    InvokeConnectionError,
    InvokeRateLimitError,
    InvokeServerUnavailableError,
)
from dify_plugin.interfaces.model.large_language_model import LargeLanguageModel


class Echo(LargeLanguageModel):
    def validate_credentials(self, model, credentials):
        if credentials.get("key") != "the-right-key":
            raise CredentialsValidateFailedError(f"the key {credentials.get('key')} is wrong")

    def get_num_tokens(self, model, credentials, prompt_messages, tools=None):
        return sum(len(message.get_text_content().split()) for message in prompt_messages)

    def get_customizable_model_schema(self, model, credentials):
        return AIModelEntity(
            model=model,
            label=I18nObject(en_US=model),
            model_type=ModelType.LLM,
            fetch_from=FetchFrom.CUSTOMIZABLE_MODEL,
            features=[],
            model_properties={ModelPropertyKey.MODE: "chat", ModelPropertyKey.CONTEXT_SIZE: 100},
            parameter_rules=[],
        )

    @property
    def _invoke_error_mapping(self):
        return {
            InvokeConnectionError: [ConnectionError],
            InvokeRateLimitError: [BlockingIOError],
            InvokeAuthorizationError: [PermissionError],
            InvokeServerUnavailableError: [OSError],
            InvokeBadRequestError: [ValueError, KeyError],
        }

    def _invoke(self, model, credentials, prompt_messages, model_parameters, tools=None, stop=None, stream=True, user=None):
        last = prompt_messages[-1]
        text = last.get_text_content()
        if "no such thing" in text:
            raise ValueError(f"refused with the key {credentials['key']}")
        if "not allowed" in text:
            raise PermissionError("no")
        usage = self._calc_response_usage(model, credentials, 10, 5)
        if not stream:
            said = self._answer(model, credentials, last, text, model_parameters)
            return LLMResult(
                model=model,
                message=AssistantPromptMessage(content=said, tool_calls=self._calls(tools, last)),
                usage=usage,
            )
        return self._pieces(model, credentials, last, text, model_parameters, tools, usage)

    def _pieces(self, model, credentials, last, text, model_parameters, tools, usage):
        def chunk(index, content="", **more):
            calls = more.pop("tool_calls", [])
            message = AssistantPromptMessage(content=content, tool_calls=calls)
            return LLMResultChunk(model=model, delta=LLMResultChunkDelta(index=index, message=message, **more))

        calls = self._calls(tools, last)
        if calls:
            # In two pieces, as providers stream them.
            whole = calls[0].function.arguments
            first, rest = calls[0].model_copy(deep=True), calls[0].model_copy(deep=True)
            first.function.arguments = whole[:3]
            rest.function.name, rest.function.arguments = "", whole[3:]
            yield chunk(0, tool_calls=[first])
            yield chunk(1, tool_calls=[rest])
        else:
            words = self._answer(model, credentials, last, text, model_parameters).split(" ")
            for at, word in enumerate(words):
                if "slowly" in text:
                    time.sleep(0.5)
                if "breaks" in text and at == 2:
                    raise ConnectionError("the line is cut")
                yield chunk(at, word if at == 0 else " " + word)
        yield chunk(99, usage=usage, finish_reason="stop")

    def _calls(self, tools, last):
        if not tools or isinstance(last, ToolPromptMessage):
            return []
        function = AssistantPromptMessage.ToolCall.ToolCallFunction(
            name=tools[0].name, arguments=json.dumps({name: "a" for name in tools[0].parameters["properties"]})
        )
        return [AssistantPromptMessage.ToolCall(id="call-1", type="function", function=function)]

    def _answer(self, model, credentials, last, text, model_parameters):
        if isinstance(last, ToolPromptMessage):
            return f"The tool said {text}"
        if model_parameters.get("response_format") == "json_schema":
            schema = json.loads(model_parameters["json_schema"])
            schema = schema.get("schema", schema)
            return json.dumps({name: "made up" for name in schema["properties"]})
        pictures = [part for part in last.content if part.type == "image"] if isinstance(last.content, list) else []
        said = f"{model} heard {text}"
        if pictures:
            said += f" and saw {len(pictures)} pictures of {len(pictures[0].base64_data)} characters"
        if credentials.get("loud") is True:
            said = said.upper()
        if "secret" in text:
            said += f" with {credentials['key'][:3]}"
        return said
