"""Waits, or keeps the processor busy so that nothing else runs in this process."""

import time

from dify_plugin import Tool


class Wait(Tool):
    def _invoke(self, tool_parameters):
        yield self.create_text_message("begun")
        seconds = float(tool_parameters["seconds"])
        if tool_parameters.get("busy"):
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                pass
        else:
            time.sleep(seconds)
        yield self.create_text_message("done")
