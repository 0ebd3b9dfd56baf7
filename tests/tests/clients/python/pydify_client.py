"""pydify: a client with one class for each mode of an app."""

from pydify import ChatbotClient, ChatflowClient, WorkflowClient
from pydify.text_generation import TextGenerationClient
from report import PAPER, SPEECH, USER, V1, key, must, of_client, stops, works

chat, flow = ChatflowClient(key("chat"), V1), WorkflowClient(key("flow"), V1)
bot, text = ChatbotClient(key("chat"), V1), TextGenerationClient(key("completion"), V1)


def last(events):
    return list(events)[-1]["event"]


first = works("send_message", lambda: chat.send_message("Hello", USER, response_mode="blocking")) or {}
works("send_message, streaming", lambda: must(last(chat.send_message("Hello", USER)) in ("message_end", "workflow_finished"), "no end"))
upload = works("upload_file", lambda: chat.upload_file(PAPER, USER)) or {}
works("send_message, with a file", lambda: must(chat.send_message("What is in it?", USER, response_mode="blocking", files=[
    {"type": "document", "transfer_method": "local_file", "upload_file_id": upload["id"]}])["answer"], "no answer"))
works("stop_task", lambda: stops(chat.send_message("Speak slowly", USER), lambda task: chat.stop_task(task, USER)))
works("get_suggested_questions", lambda: must(chat.get_suggested_questions(first["message_id"], USER)["data"], "no questions"))
works("get_messages", lambda: must(chat.get_messages(first["conversation_id"], USER)["data"], "none"))
works("get_conversations", lambda: must(chat.get_conversations(USER)["data"], "none"))
works("rename_conversation", lambda: must(
    chat.rename_conversation(first["conversation_id"], USER, name="Mills")["name"] == "Mills", "another name"))
works("message_feedback", lambda: chat.message_feedback(first["message_id"], USER, "like"))
of_client("audio_to_text", "sends the form as `application/json`", lambda: chat.audio_to_text(SPEECH, USER))
works("text_to_audio", lambda: chat.text_to_audio(USER, text="Good morning"))
works("get_meta", lambda: must("tool_icons" in chat.get_meta(), "no icons"))
works("get_app_info", lambda: must(chat.get_app_info()["name"] == "Clients chat", "another name"))
works("get_parameters", lambda: must("system_parameters" in chat.get_parameters(), "no limits"))
works("ChatbotClient.send_message", lambda: must(last(bot.send_message("Hello", USER)) in ("message_end", "workflow_finished"), "no end"))
works("completion", lambda: must(text.completion("mills", USER, response_mode="blocking")["answer"], "no answer"))
works("completion, streaming", lambda: must(last(text.completion("mills", USER)) == "message_end", "no end"))
works("run", lambda: must(flow.run({"text": "Hello"}, USER, response_mode="blocking")["data"]["status"] == "succeeded", "another status"))
works("run, streaming", lambda: must(last(flow.run({"text": "Hello"}, USER)) == "workflow_finished", "no end"))
works("stop_task of a workflow", lambda: must(
    stops(flow.run({"text": "Speak slowly"}, USER), lambda task: flow.stop_task(task, USER))[-1]["data"]["status"] == "stopped",
    "not stopped"))
works("get_logs", lambda: must(flow.get_logs(status="succeeded")["data"], "none"))
of_client("get_run_info", "asks for /workflows/runs/{id}, which Dify does not have",
          lambda: flow.get_run_info("00000000-0000-4000-8000-000000000000"))
of_client("delete_conversation", "posts to /conversations/{id}/delete or reads the JSON of an empty answer",
          lambda: chat.delete_conversation(first["conversation_id"], USER))
