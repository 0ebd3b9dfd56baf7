"""What the two typed clients, dify-client-python and dify-api-client, have in common: methods, models and errors."""

from report import PAPER, USER, key, must, of_client, stops, works


def try_all(client, models, errors):
    """`client` makes a client for the key of an app; `models` and `errors` are modules of the package."""
    chat, flow, completion = (client(key(app)) for app in ("chat", "flow", "completion"))
    blocking, streaming = models.ResponseMode.BLOCKING, models.ResponseMode.STREAMING
    stop = models.StopRequest(user=USER)

    def asked(query, mode=blocking, **more):
        return chat.chat_messages(models.ChatRequest(query=query, response_mode=mode, user=USER, **more))

    def ran(text, mode=blocking, **inputs):
        request = models.WorkflowsRunRequest(inputs={"text": text, **inputs}, response_mode=mode, user=USER)
        return flow.run_workflows(request)

    def uploaded():
        with open(PAPER, "rb") as file:
            return chat.upload_files(("paper.txt", file, "text/plain"), models.UploadFileRequest(user=USER))

    def with_file():
        file = models.File(type="document", transfer_method="local_file", upload_file_id=uploaded().id)
        must(asked("What is in it?", files=[file]).answer, "no answer")

    def last(events):
        return list(events)[-1].event

    def completed(mode):
        request = models.CompletionRequest(inputs={"query": "mills"}, response_mode=mode, user=USER)
        return completion.completion_messages(request)

    def refused(call, kind):
        try:
            call()
        except kind:
            return
        raise AssertionError(f"no {kind.__name__}")

    works("upload_files", lambda: must(uploaded().name == "paper.txt", "another name"))
    first = works("chat_messages", lambda: asked("Hello"))
    works("chat_messages, streaming", lambda: must(last(asked("Hello", streaming)) in ("message_end", "workflow_finished"), "no end"))
    if models.File.model_fields["url"].is_required():
        of_client("chat_messages, with a file", "its model of a file requires a URL, also for an upload", with_file)
    else:
        works("chat_messages, with a file", with_file)
    works("stop_chat_messages", lambda: stops(asked("Speak slowly", streaming), lambda task: chat.stop_chat_messages(task, stop)))
    works("feedback_messages", lambda: chat.feedback_messages(
        first.message_id, models.FeedbackRequest(rating="like", user=USER)))
    works("suggest_messages", lambda: must(
        chat.suggest_messages(first.message_id, models.ChatSuggestRequest(user=USER)).data, "no questions"))
    works("completion_messages", lambda: must(completed(blocking).answer, "no answer"))
    works("completion_messages, streaming", lambda: must(last(completed(streaming)) == "message_end", "no end"))
    works("run_workflows", lambda: must(ran("Hello").data.status == "succeeded", "another status"))
    works("run_workflows, streaming", lambda: must(last(ran("Hello", streaming)) == "workflow_finished", "no end"))
    works("typed error not_chat_app", lambda: refused(
        lambda: flow.chat_messages(models.ChatRequest(query="x", response_mode=blocking, user=USER)), errors.DifyNotChatApp))
    works("typed error invalid_param", lambda: refused(
        lambda: flow.run_workflows(models.WorkflowsRunRequest(inputs={}, response_mode=blocking, user=USER)),
        errors.DifyInvalidParam))
    return chat, flow, first, ran, streaming, stop
