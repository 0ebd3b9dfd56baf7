from dify_plugin.errors.tool import ToolProviderCredentialValidationError
from dify_plugin.interfaces.datasource import DatasourceProvider


class Pages(DatasourceProvider):
    def _validate_credentials(self, credentials):
        if credentials.get("token") != "the-right-token":
            raise ToolProviderCredentialValidationError("the token is wrong")
