"""The mark of a file among values."""

FILE_MODEL_IDENTITY = "__dify__file__"
"""The value of ``dify_model_identity`` in a file's JSON."""
