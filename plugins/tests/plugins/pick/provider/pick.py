from dify_plugin import ToolProvider


class Pick(ToolProvider):
    def _validate_credentials(self, credentials):
        pass
