"""The model of a node, as graphon's programs give it."""

from .config import SlimConfig, SlimLocalSettings, SlimProviderBinding
from .llm import SlimLLM

SlimClientConfig = SlimConfig

__all__ = ["SlimClientConfig", "SlimConfig", "SlimLLM", "SlimLocalSettings", "SlimProviderBinding"]
