"""Errors of variables."""


class VariableError(ValueError):
    """A variable cannot be built."""
