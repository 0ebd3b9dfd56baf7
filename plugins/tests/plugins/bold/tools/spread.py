"""Starts children that start children, each of which stays, and reports how many could be started."""

import os
import time

from dify_plugin import Tool


class Spread(Tool):
    def _invoke(self, tool_parameters):
        for count in range(100_000):
            try:
                if os.fork() == 0:
                    while True:
                        time.sleep(3600)
            except OSError:
                break
        yield self.create_text_message(str(count))
        time.sleep(3600)
