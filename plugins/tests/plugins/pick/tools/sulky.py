"""Does not say which parameters it has at run time."""

from dify_plugin import Tool


class Sulky(Tool):
    def _invoke(self, tool_parameters):
        yield self.create_json_message({"given": tool_parameters})

    def _get_runtime_parameters(self):
        raise RuntimeError("not today")
