"""dify-api-client: a typed client, with conversations and documents of datasets."""

from dify_client import DifyClient, errors, models
from report import USER, V1, must, of_client, works
from typed import try_all

chat, flow, first, ran, streaming, stop = try_all(lambda key: DifyClient(api_key=key, api_base=V1), models, errors)
works("get_conversations", lambda: must(chat.get_conversations(models.ConversationRequest(user=USER)).data, "none"))
works("get_conversation_history_messages", lambda: must(
    chat.get_conversation_history_messages(
        models.ConversationHistoryMessageRequest(user=USER, conversation_id=first.conversation_id)).data, "none"))
of_client("stop_workflows", "asks for /workflows/{id}/stop, which Dify does not have",
          lambda: flow.stop_workflows("00000000-0000-4000-8000-000000000000", stop))
