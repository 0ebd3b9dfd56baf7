from dify_plugin import ToolProvider
from dify_plugin.errors.tool import ToolProviderCredentialValidationError


class Many(ToolProvider):
    def _validate_credentials(self, credentials):
        if credentials.get("key") != "the-right-key":
            raise ToolProviderCredentialValidationError(f"the key {credentials.get('key')} is wrong")
