"""Layers that come with the package."""
