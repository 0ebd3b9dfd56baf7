"""The errors of values whose type does not fit, which programs catch by graphon's names."""


class VariableError(ValueError):
    """A variable cannot be built."""
