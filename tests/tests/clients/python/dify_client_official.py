"""dify-client, the client for Python that Dify published first."""

import json

from dify_client import ChatClient, CompletionClient, DifyClient
from report import PAPER, USER, V1, key, must, ok, works


def of(kind, app):
    client = kind(key(app))
    client.base_url = V1
    return client


chat, completion, flow = of(ChatClient, "chat"), of(CompletionClient, "completion"), of(DifyClient, "flow")


def events(response):
    """Reads a stream by lines, as the README of the client does."""
    must(response.status_code == 200, f"status {response.status_code}: {response.text[:300]}")
    found = []
    for line in response.iter_lines(decode_unicode=True):
        line = line.split("data:", 1)[-1]
        if line.strip() and not line.startswith("event: ping"):
            found.append(json.loads(line))
    return found


def uploaded():
    with open(PAPER, "rb") as file:
        return ok(chat.file_upload(USER, {"file": ("paper.txt", file, "text/plain")}), 201)


def with_file():
    file = {"type": "document", "transfer_method": "local_file", "upload_file_id": uploaded()["id"]}
    answer = ok(chat.create_chat_message({}, "What is in the file?", USER, files=[file]))
    page = ok(chat.get_conversation_messages(USER, answer["conversation_id"]))
    attached = page["data"][0]["message_files"]
    must(attached and attached[0]["belongs_to"] == "user" and attached[0]["filename"] == "paper.txt", attached)


def streamed():
    found = events(chat.create_chat_message({}, "Hello", USER, response_mode="streaming"))
    names = [event["event"] for event in found]
    must(names[0] == "workflow_started" and "message" in names and "message_end" in names, names)


works("get_application_parameters", lambda: must("system_parameters" in ok(chat.get_application_parameters(USER)), "no limits"))
works("file_upload", lambda: must(uploaded()["name"] == "paper.txt", "another name"))
first = works("create_chat_message", lambda: ok(chat.create_chat_message({}, "Hello", USER))) or {}
works("create_chat_message, streaming", streamed)
works("create_chat_message, with a file", with_file)
talk = first.get("conversation_id", "")
works("create_chat_message, second turn", lambda: must(
    ok(chat.create_chat_message({}, "Again", USER, conversation_id=talk))["conversation_id"] == talk, "another conversation"))
works("get_conversation_messages", lambda: must(
    [m["query"] for m in ok(chat.get_conversation_messages(USER, talk, limit=5))["data"]] == ["Hello", "Again"], "other messages"))
works("get_conversations", lambda: must(
    talk in [c["id"] for c in ok(chat.get_conversations(USER))["data"]], "the conversation is missing"))
works("rename_conversation", lambda: must(ok(chat.rename_conversation(talk, "Mills", USER))["name"] == "Mills", "another name"))
works("message_feedback", lambda: ok(chat.message_feedback(first["message_id"], "like", USER)))
works("create_completion_message", lambda: must(
    ok(completion.create_completion_message({"query": "mills"}, "blocking", USER))["answer"], "no answer"))
works("create_completion_message, streaming", lambda: must(
    events(completion.create_completion_message({"query": "mills"}, "streaming", USER))[-1]["event"] == "message_end", "no end"))
works("a key of another app", lambda: must(
    ok(flow._send_request("POST", "/chat-messages", {"inputs": {}, "query": "x", "user": USER}), 400)["code"] == "not_chat_app",
    "another error"))
