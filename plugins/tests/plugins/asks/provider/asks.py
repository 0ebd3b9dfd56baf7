from dify_plugin import ToolProvider


class Asks(ToolProvider):
    def _validate_credentials(self, credentials):
        pass
