"""The lengths of selectors, which programs read under graphon's path."""

SELECTORS_LENGTH = 2
"""A selector's first two parts name a variable; further ones lead into its value."""
