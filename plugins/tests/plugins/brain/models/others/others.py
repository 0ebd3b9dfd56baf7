"""Models of the other kinds."""

from dify_plugin.entities.model.rerank import RerankDocument, RerankResult
from dify_plugin.entities.model.text_embedding import EmbeddingUsage, TextEmbeddingResult
from dify_plugin.interfaces.model.moderation_model import ModerationModel
from dify_plugin.interfaces.model.rerank_model import RerankModel
from dify_plugin.interfaces.model.speech2text_model import Speech2TextModel
from dify_plugin.interfaces.model.text_embedding_model import TextEmbeddingModel
from dify_plugin.interfaces.model.tts_model import TTSModel


class Accepting:
    def validate_credentials(self, model, credentials):
        pass

    @property
    def _invoke_error_mapping(self):
        return {}


class Letters(Accepting, TextEmbeddingModel):
    """The vector of a text counts some of its letters."""

    def get_num_tokens(self, model, credentials, texts):
        return [len(text) for text in texts]

    def _invoke(self, model, credentials, texts, user=None, input_type=None):
        if len(texts) > 2:
            raise ValueError("at most two texts")
        vectors = [[float(text.count(letter)) for letter in "abcde"] for text in texts]
        tokens = sum(len(text) for text in texts)
        usage = EmbeddingUsage(
            tokens=tokens, total_tokens=tokens, unit_price=0, price_unit=0, total_price=0, currency="USD", latency=0
        )
        return TextEmbeddingResult(model=model, embeddings=vectors, usage=usage)


class Shortest(Accepting, RerankModel):
    def _invoke(self, model, credentials, query, docs, score_threshold=None, top_n=None, user=None):
        ranked = [RerankDocument(index=at, text=text, score=1 / (1 + len(text))) for at, text in enumerate(docs)]
        ranked.sort(key=lambda document: -document.score)
        return RerankResult(model=model, docs=ranked[:top_n])


class Guard(Accepting, ModerationModel):
    def _invoke(self, model, credentials, text, user=None):
        return "violence" in text


class Ear(Accepting, Speech2TextModel):
    def _invoke(self, model, credentials, file, user=None):
        return f"{len(file.read())} bytes"


class Voice(Accepting, TTSModel):
    def _invoke(self, model, tenant_id, credentials, content_text, voice, user=None):
        return (piece.encode() for piece in (voice, ":", content_text))
