"""The settings of HTTP requests, under graphon's path."""

from ..parts import build_http_request_config

__all__ = ["build_http_request_config"]
