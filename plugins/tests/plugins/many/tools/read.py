"""Reads the file that it gets."""

from dify_plugin import Tool


class Read(Tool):
    def _invoke(self, tool_parameters):
        file = tool_parameters["file"]
        yield self.create_text_message(f"{file.filename}: {file.blob.decode()}")
