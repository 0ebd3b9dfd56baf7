"""Tests of Calls that are Python classes."""
