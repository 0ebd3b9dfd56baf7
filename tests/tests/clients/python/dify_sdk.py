"""dify-sdk: an asynchronous client. It reads a stream by frames and takes only frames that begin with `data:`."""

import asyncio
import os

from dify import AdminClient, Dify
from dify.app.conversation.schemas import (
    ConversationListQueryPayloads,
    ConversationRenamePayloads,
    MessageFeedbackPayloads,
    MessageListQueryPayloads,
)
from dify.app.schemas import ChatPayloads, RunWorkflowPayloads
from report import USER, V1, key, must, works

dify = Dify(AdminClient(V1.removesuffix("/v1"), "none", "none", "none"))
app, talks = dify.app, dify.app.conversation


def run(coroutine):
    return asyncio.run(coroutine)


async def events(stream, stop=None):
    found = []
    async for event in stream:
        found.append(event)
        if stop and len(found) == 1:
            await stop(event.task_id)
    return [event.event.value if hasattr(event.event, "value") else event.event for event in found]


def ended(names, *wanted):
    must(all(name in names for name in wanted), names)


def chatted(query, mode="streaming", **more):
    return ChatPayloads(query=query, inputs={}, response_mode=mode, user=USER, **more)


def generated(**inputs):
    return RunWorkflowPayloads(inputs=inputs, response_mode="streaming", user=USER)


works("get_parameters", lambda: must(run(app.get_parameters(key("chat"))).opening_statement, "no opening statement"))
works("chat, streaming", lambda: ended(
    run(events(app.chat(key("chat"), chatted("Hello")))), "workflow_started", "node_finished", "message", "message_end",
    "workflow_finished"))
first = works("chat_block", lambda: run(app.chat_block(key("chat"), chatted("Hello", "blocking"))))
works("run, streaming", lambda: ended(
    run(events(app.run(key("flow"), generated(text="Hello")))), "workflow_started", "text_chunk", "workflow_finished"))
works("completion_block", lambda: must(run(app.completion_block(key("completion"), generated(query="mills"))).answer, "no answer"))
works("completion, streaming", lambda: ended(
    run(events(app.completion(key("completion"), generated(query="mills")))), "message", "message_end"))
works("stop_message", lambda: run(events(
    app.chat(key("chat"), chatted("Speak slowly")), lambda task: app.stop_message(key("chat"), task, USER))))
found = works("find_list of conversations", lambda: run(
    talks.find_list(key("chat"), ConversationListQueryPayloads(user=USER))).data) or []
talk = found[0].id if found else ""
page = works("get_messages", lambda: run(
    talks.get_messages(key("chat"), MessageListQueryPayloads(conversation_id=talk, user=USER))).data) or []
works("rename", lambda: must(run(
    talks.rename(key("chat"), talk, ConversationRenamePayloads(name="Mills", user=USER))).name == "Mills", "another name"))
works("submit_feedback", lambda: run(
    talks.submit_feedback(key("chat"), page[0].id, MessageFeedbackPayloads(rating="like", user=USER, content=""))))
