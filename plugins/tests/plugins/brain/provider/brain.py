from dify_plugin import ModelProvider
from dify_plugin.errors.model import CredentialsValidateFailedError


class BrainProvider(ModelProvider):
    def validate_provider_credentials(self, credentials):
        if credentials.get("key") != "the-right-key":
            raise CredentialsValidateFailedError(f"the key {credentials.get('key')} is wrong")
