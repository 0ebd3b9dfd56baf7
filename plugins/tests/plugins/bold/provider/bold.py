from dify_plugin import ToolProvider


class Bold(ToolProvider):
    def _validate_credentials(self, credentials):
        pass
