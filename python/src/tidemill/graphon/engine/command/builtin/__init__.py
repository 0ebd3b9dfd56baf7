"""Command channels that come with the package."""
