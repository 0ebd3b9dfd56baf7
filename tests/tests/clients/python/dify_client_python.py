"""dify-client-python: a typed client; it parses every event of a stream into a model."""

from dify_client import Client, errors, models
from report import SPEECH, USER, V1, must, stops, works
from typed import try_all

chat, flow, first, ran, streaming, stop = try_all(lambda key: Client(api_key=key, api_base=V1), models, errors)


def heard():
    with open(SPEECH, "rb") as file:
        return chat.audio_to_text(("speech.mp3", file, "audio/mpeg"), models.AudioToTextRequest(user=USER)).text


works("stop_workflows", lambda: must(
    stops(ran("Speak slowly", streaming), lambda task: flow.stop_workflows(task, stop))[-1].data["status"] == "stopped",
    "not stopped"))
works("audio_to_text", lambda: must(heard(), "no text"))
works("text_to_audio", lambda: must(len(chat.text_to_audio(models.TextToAudioRequest(text="Good morning", user=USER))) > 10, "no sound"))
works("text_to_audio of a message", lambda: must(
    len(chat.text_to_audio(models.TextToAudioRequest(message_id=first.message_id, user=USER))) > 10, "no sound"))
