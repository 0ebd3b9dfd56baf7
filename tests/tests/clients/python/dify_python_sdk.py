"""dify-python-sdk: the client in Dify's repository, with all methods of the service API."""

import json
import os

from dify_client import ChatClient, CompletionClient, DifyClient, KnowledgeBaseClient, WorkflowClient
from report import PAPER, SPEECH, USER, V1, key, must, ok, say, works


def of(kind, app):
    return kind(key(app), base_url=V1, max_retries=0)


chat, completion, flow = of(ChatClient, "chat"), of(CompletionClient, "completion"), of(WorkflowClient, "flow")


def lines(response):
    must(response.status_code == 200, f"status {response.status_code}")
    return [json.loads(line[5:]) for line in response.iter_lines() if line.startswith("data:")]


def file(path, name, kind):
    with open(path, "rb") as source:
        return {"file": (name, source.read(), kind)}


# Every app.
works("get_application_parameters", lambda: ok(chat.get_application_parameters(USER)))
works("get_meta", lambda: must("tool_icons" in ok(chat.get_meta(USER)), "no icons"))
works("get_app_info", lambda: must(ok(chat.get_app_info())["mode"] == "advanced-chat", "another mode"))
works("get_app_site_info", lambda: must(ok(chat.get_app_site_info())["title"] == "Clients chat", "another title"))
upload = works("file_upload", lambda: ok(chat.file_upload(USER, file(PAPER, "paper.txt", "text/plain")), 201)) or {}


def preview():
    attached = [{"type": "document", "transfer_method": "local_file", "upload_file_id": upload["id"]}]
    ok(chat.create_chat_message({}, "What is in the file?", USER, files=attached))
    found = chat.get_file_preview(upload["id"])
    must(found.status_code == 200 and found.content == open(PAPER, "rb").read(), found.text[:200])


works("get_file_preview", preview)
works("text_to_audio", lambda: must(len(chat.text_to_audio("Good morning", USER).content) > 10, "no sound"))

# Chats.
first = works("create_chat_message", lambda: ok(chat.create_chat_message({"name": "Ada"}, "Hello", USER))) or {}
talk, message = first.get("conversation_id", ""), first.get("message_id", "")
works("create_chat_message, streaming", lambda: must(
    lines(chat.create_chat_message({}, "Hi", USER, response_mode="streaming"))[-1]["event"] in ("message_end", "workflow_finished"),
    "no end"))
# It reads a stream to its end before it returns it, so the stop comes late; the call itself must work.
works("stop_message", lambda: ok(chat.stop_message(first.get("task_id"), USER)))
works("get_suggested", lambda: must(len(ok(chat.get_suggested(message, USER))["data"]) > 0, "no questions"))
works("message_feedback", lambda: ok(chat.message_feedback(message, "dislike", USER)))
works("get_conversations", lambda: must(ok(chat.get_conversations(USER, limit=5))["data"], "none"))
works("get_conversation_messages", lambda: must(ok(chat.get_conversation_messages(USER, talk))["data"], "none"))
works("rename_conversation", lambda: must(
    ok(chat.rename_conversation(talk, "Mills", False, USER))["name"] == "Mills", "another name"))
works("rename_conversation, automatic", lambda: must(ok(chat.rename_conversation(talk, "any", True, USER))["name"], "no name"))
variables = works("get_conversation_variables", lambda: ok(chat.get_conversation_variables(talk, USER))["data"]) or [{}]
works("update_conversation_variable", lambda: must(
    ok(chat.update_conversation_variable(talk, variables[0].get("id"), "merry", USER))["value"] == "merry", "another value"))
works("list_conversation_variables_with_pagination", lambda: ok(chat.list_conversation_variables_with_pagination(talk, USER)))
works("audio_to_text", lambda: must(
    ok(chat.audio_to_text(("speech.mp3", open(SPEECH, "rb").read(), "audio/mpeg"), USER))["text"], "no text"))

# Annotations.
note = works("create_annotation", lambda: ok(chat.create_annotation("Where is the mill?", "At the river."), 201)) or {}
works("list_annotations", lambda: must(ok(chat.list_annotations(keyword="mill"))["total"] == 1, "another number"))
works("list_annotations_with_pagination", lambda: ok(chat.list_annotations_with_pagination(1, 5)))
works("update_annotation", lambda: must(
    ok(chat.update_annotation(note.get("id"), "Where is the mill?", "On the dam."))["answer"] == "On the dam.", "another answer"))
job = works("annotation_reply_action", lambda: ok(
    chat.annotation_reply_action("enable", 0.9, "openai", "text-embedding-3-small"))) or {}
works("get_annotation_reply_status", lambda: ok(chat.get_annotation_reply_status("enable", job.get("job_id"))))
works("annotation reply", lambda: must(
    ok(chat.create_chat_message({}, "Where is the mill?", USER))["answer"] == "On the dam.", "another answer"))
works("annotation_reply_action, disable", lambda: ok(
    chat.annotation_reply_action("disable", 0.9, "openai", "text-embedding-3-small")))
works("delete_annotation", lambda: must(chat.delete_annotation(note.get("id")).status_code in (200, 204), "not deleted"))
works("delete_conversation", lambda: must(chat.delete_conversation(talk, USER).status_code in (200, 204), "not deleted"))

# Text generators.
works("create_completion_message", lambda: must(
    ok(completion.create_completion_message({"query": "mills"}, "blocking", USER))["answer"], "no answer"))
works("create_completion_message, streaming", lambda: must(
    lines(completion.create_completion_message({"query": "mills"}, "streaming", USER))[-1]["event"] == "message_end", "no end"))

# Workflows.
ran = works("run", lambda: ok(flow.run({"text": "Hello"}, "blocking", USER))) or {}
works("run, streaming", lambda: must(
    lines(flow.run({"text": "Hello"}, "streaming", USER))[-1]["event"] == "workflow_finished", "no end"))
works("run, with a file", lambda: must(
    ok(flow.run({"text": "Hello", "paper": {
        "type": "document", "transfer_method": "local_file",
        "upload_file_id": ok(flow.file_upload(USER, file(PAPER, "paper.txt", "text/plain")), 201)["id"]}},
        "blocking", USER))["data"]["outputs"]["paper"]["filename"] == "paper.txt", "another file"))
works("stop", lambda: ok(flow.stop(ran.get("task_id"), USER)))
works("get_result", lambda: must(ok(flow.get_result(ran.get("workflow_run_id")))["status"] == "succeeded", "another status"))
works("get_workflow_logs", lambda: must(ok(flow.get_workflow_logs(status="succeeded", limit=5))["data"], "none"))
works("run_specific_workflow", lambda: must(
    ok(flow.run_specific_workflow(ran["data"]["workflow_id"], {"text": "Hi"}, "blocking", USER))["data"]["status"] == "succeeded",
    "another status"))
for method in ("get_workflow_draft", "publish_workflow", "get_app_site_config", "get_app_api_tokens"):
    say(method, "client", "a route of Dify's console, not of its service API")

if os.environ.get("TIDEMILL_KEY_DATASETS"):
    from knowledge_of_sdk import run

    run()
