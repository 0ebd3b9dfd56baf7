"""Answers with a message of each kind."""

from dify_plugin import Tool


class Say(Tool):
    def _invoke(self, tool_parameters):
        text = str(tool_parameters["text"]) * int(tool_parameters["often"])
        yield self.create_text_message(text.upper() if tool_parameters["loud"] else text)
        yield self.create_json_message({"given": tool_parameters})
        yield self.create_link_message("https://example.com/")
        yield self.create_variable_message("mood", tool_parameters["mood"])
        yield self.create_stream_variable_message("part", "a")
        yield self.create_stream_variable_message("part", "b")
        yield self.create_blob_message(bytes(range(256)) * 100, meta={"mime_type": "application/octet-stream"})
        yield self.create_log_message("done", {"length": len(text)})
