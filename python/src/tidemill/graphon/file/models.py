"""A file as a value of a run."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict

from .constants import FILE_MODEL_IDENTITY
from .enums import FileAttribute, FileTransferMethod, FileType

_OTHER_NAMES = {
    "file_id": "id",
    "file_type": "type",
    "url": "remote_url",
    "related_id": "reference",
    "tool_file_id": "reference",
    "upload_file_id": "reference",
    "datasource_file_id": "reference",
}


class File(BaseModel):
    """A file: where it is, and what is known about it. Its content is not part of it."""

    model_config = ConfigDict(extra="allow")

    dify_model_identity: str = FILE_MODEL_IDENTITY
    id: str | None = None
    type: FileType
    transfer_method: FileTransferMethod
    remote_url: str | None = None
    reference: str | None = None
    filename: str | None = None
    extension: str | None = None
    mime_type: str | None = None
    size: int = -1

    def __init__(self, **fields: Any) -> None:
        for other, name in _OTHER_NAMES.items():
            value = fields.pop(other, None)
            if value is not None and fields.get(name) is None:
                fields[name] = value
        fields.pop("tenant_id", None)
        super().__init__(**fields)
        if self.transfer_method is FileTransferMethod.REMOTE_URL and not self.remote_url:
            raise ValueError("a file with the transfer method remote_url needs remote_url")

    @property
    def markdown(self) -> str:
        """The file as Markdown: an image, or a link."""
        url = self.generate_url() or ""
        mark = "!" if self.type is FileType.IMAGE else ""
        return f"{mark}[{self.filename or url}]({url})"

    def generate_url(self, for_external: bool = True) -> str | None:
        """Return the address of a remote file; other files have none here."""
        del for_external
        return self.remote_url

    def to_dict(self) -> dict[str, Any]:
        """Return the file as JSON."""
        return {**self.model_dump(mode="json"), "related_id": self.reference, "url": self.generate_url()}

    def attribute(self, name: str) -> Any:
        """Return an attribute that a selector names; None for an unknown one."""
        values = {
            FileAttribute.TYPE: self.type.value,
            FileAttribute.SIZE: self.size,
            FileAttribute.NAME: self.filename,
            FileAttribute.MIME_TYPE: self.mime_type,
            FileAttribute.TRANSFER_METHOD: self.transfer_method.value,
            FileAttribute.URL: self.generate_url(),
            FileAttribute.EXTENSION: self.extension,
            FileAttribute.RELATED_ID: self.reference,
        }
        return next((value for key, value in values.items() if key.value == name), None)
