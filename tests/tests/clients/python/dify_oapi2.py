"""dify-oapi2: requests by builders, answers as models that refuse what they do not know."""

import json
from importlib import import_module
from io import BytesIO

from dify_oapi.client import Client
from dify_oapi.core.model.request_option import RequestOption
from report import PAPER, SPEECH, USER, V1, key, must, of_client, stops, works

client = Client.builder().domain(V1.removesuffix("/v1")).max_retry_count(0).build()
chat, flow, completion, every = client.chatflow.v1, client.workflow.v1, client.completion.v1, client.dify.v1


def option(app):
    return RequestOption.builder().api_key(key(app)).build()


def made(folder, model, body=None, **fields):
    """A request: the class `model` of the folder, with the fields set and the fields of its body."""
    module = import_module(f"dify_oapi.api.{folder}.{''.join('_' + c.lower() if c.isupper() else c for c in model).lstrip('_')}")
    builder = getattr(module, model).builder()
    for field, value in fields.items():
        builder = getattr(builder, field)(*value) if isinstance(value, tuple) else getattr(builder, field)(value)
    if body is not None:
        builder = builder.request_body(made(folder, body[0], **body[1]))
    return builder.build()


def good(answer):
    must(answer.success, f"{answer.code}: {answer.msg}")
    return answer


def asked(query, mode="blocking"):
    fields = {"query": query, "inputs": {"name": "Ada"}, "response_mode": mode, "user": USER}
    return made("chatflow.v1.model", "SendChatMessageRequest", ("SendChatMessageRequestBody", fields))


def lines(stream):
    text = b""
    for piece in stream:
        text += piece
        *frames, text = text.split(b"\n\n")
        yield from (json.loads(frame[5:]) for frame in frames if frame.startswith(b"data:"))


def last(stream):
    return list(lines(stream))[-1]["event"]


def stop(folder, name, call, app):
    return lambda task: call(made(folder, name, (f"{name}Body", {"user": USER}), task_id=task), option(app))


MODEL = "chatflow.v1.model"
works("info", lambda: must(good(every.info.get(made("dify.v1.model", "GetInfoRequest"), option("chat"))).name == "Clients chat", "name"))
works("parameters", lambda: good(every.info.parameters(made("dify.v1.model", "GetParametersRequest"), option("chat"))))
works("meta", lambda: good(every.info.meta(made("dify.v1.model", "GetMetaRequest"), option("chat"))))
works("site", lambda: must(good(every.info.site(made("dify.v1.model", "GetSiteRequest"), option("chat"))).title == "Clients chat", "title"))
works("file.upload", lambda: must(good(every.file.upload(
    made("dify.v1.model", "UploadFileRequest", ("UploadFileBody", {"user": USER}), file=(BytesIO(open(PAPER, "rb").read()), "paper.txt")),
    option("chat"))).name == "paper.txt", "another name"))
first = works("chatflow.send", lambda: good(chat.chatflow.send(asked("Hello"), option("chat"), False)))
works("chatflow.send, streaming", lambda: must(
    last(chat.chatflow.send(asked("Hello", "streaming"), option("chat"), True)) in ("message_end", "workflow_finished"), "no end"))
works("chatflow.stop", lambda: stops(
    lines(chat.chatflow.send(asked("Speak slowly", "streaming"), option("chat"), True)),
    stop(MODEL, "StopChatMessageRequest", chat.chatflow.stop, "chat")))
works("chatflow.suggested", lambda: must(good(chat.chatflow.suggested(
    made(MODEL, "GetSuggestedQuestionsRequest", message_id=getattr(first, "message_id", None) or first.id, user=USER), option("chat"))).data, "none"))
works("conversation.list", lambda: must(good(chat.conversation.list(
    made(MODEL, "GetConversationsRequest", user=USER, limit=5), option("chat"))).data, "none"))
works("conversation.messages", lambda: must(good(chat.conversation.messages(
    made(MODEL, "GetConversationMessagesRequest", user=USER, conversation_id=first.conversation_id), option("chat"))).data, "none"))
works("conversation.rename", lambda: good(chat.conversation.rename(
    made(MODEL, "RenameConversationRequest", ("RenameConversationRequestBody", {"name": "Mills", "user": USER}),
         conversation_id=first.conversation_id), option("chat"))))
works("conversation.variables", lambda: must(good(chat.conversation.variables(
    made(MODEL, "GetConversationVariablesRequest", user=USER, conversation_id=first.conversation_id), option("chat"))).data, "none"))
note = works("annotation.create", lambda: good(chat.annotation.create(
    made(MODEL, "CreateAnnotationRequest", ("CreateAnnotationRequestBody", {"question": "Who?", "answer": "Ada."})), option("chat"))))
works("annotation.list", lambda: must(good(chat.annotation.list(
    made(MODEL, "GetAnnotationsRequest", page=1, limit=5), option("chat"))).data, "none"))
works("annotation.delete", lambda: chat.annotation.delete(
    made(MODEL, "DeleteAnnotationRequest", annotation_id=note.id), option("chat")))
works("feedback.submit", lambda: good(every.feedback.submit(
    made("dify.v1.model", "SubmitFeedbackRequest", ("SubmitFeedbackRequestBody", {"rating": "like", "user": USER}),
         message_id=getattr(first, "message_id", None) or first.id), option("chat"))))
works("feedback.list", lambda: must(good(every.feedback.list(
    made("dify.v1.model", "GetFeedbacksRequest", page=1, limit=5), option("chat"))).data, "none"))
works("audio.to_text", lambda: must(good(every.audio.to_text(
    made("dify.v1.model", "AudioToTextRequest", ("AudioToTextRequestBody", {"user": USER}),
         file=(BytesIO(open(SPEECH, "rb").read()), "speech.mp3")), option("chat"))).text, "no text"))
works("completion.send_message", lambda: must(good(completion.completion.send_message(
    made("completion.v1.model.completion", "SendMessageRequest",
         ("SendMessageRequestBody", {"inputs": {"query": "mills"}, "response_mode": "blocking", "user": USER})),
    option("completion"), False)).answer, "no answer"))
of_client("workflow.run", "puts `inputs` into `inputs`, so a required input is missing", lambda: good(flow.workflow.run(
    made("workflow.v1.model", "RunWorkflowRequest", ("RunWorkflowRequestBody", {
        "inputs": made("workflow.v1.model", "WorkflowInputs", inputs={"text": "Hello"}), "response_mode": "blocking", "user": USER})),
    option("flow"), False)))
works("workflow.logs", lambda: good(flow.workflow.logs(
    made("workflow.v1.model", "GetWorkflowLogsRequest", page=1, limit=5), option("flow"))))
