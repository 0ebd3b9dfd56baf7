"""Stores a value and reads it again; then asks for something that the manifest does not permit."""

from dify_plugin import Tool


class Keep(Tool):
    def _invoke(self, tool_parameters):
        storage = self.session.storage
        key = tool_parameters["key"]
        if "value" in tool_parameters:
            storage.set(key, tool_parameters["value"].encode())
        yield self.create_text_message(storage.get(key).decode())
        try:
            self.session.app.fetch_app("some-app")
        except Exception as error:
            yield self.create_text_message(str(error))
