"""Assigner nodes."""
