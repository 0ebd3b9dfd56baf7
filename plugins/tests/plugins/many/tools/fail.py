"""Fails in different ways."""

import os
import sys

from dify_plugin import Tool


class Fail(Tool):
    def _invoke(self, tool_parameters):
        how = tool_parameters["how"]
        if how == "die":
            os._exit(7)
        if how == "print":
            print("printed by the tool", end="")
            print("an error line", file=sys.stderr)
            yield self.create_text_message("after printing")
            return
        if how == "flood":
            for _ in range(100):
                yield self.create_text_message("x" * 100_000)
            return
        raise ValueError(f"failed with the key {self.runtime.credentials.get('key')}")
