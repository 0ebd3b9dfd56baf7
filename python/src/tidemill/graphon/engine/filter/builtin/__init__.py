"""Filters that come with the package."""
