"""A drive with files."""

from dify_plugin.entities.datasource import OnlineDriveBrowseFilesResponse
from dify_plugin.interfaces.datasource.online_drive import OnlineDriveDatasource


class Drive(OnlineDriveDatasource):
    def _browse_files(self, request):
        return OnlineDriveBrowseFilesResponse(result=[])

    def _download_file(self, request):
        content = f"{request.bucket} has {request.id}".encode()
        yield self.create_blob_message(content, meta={"file_name": "a.txt", "mime_type": "text/plain"})
