"""The types of files and the ways in which they come, as the enums of graphon."""

from __future__ import annotations

from .._strenum import StrEnum


class FileType(StrEnum):
    """The kind of a file."""

    IMAGE = "image"
    DOCUMENT = "document"
    AUDIO = "audio"
    VIDEO = "video"
    CUSTOM = "custom"


class FileTransferMethod(StrEnum):
    """Where a file is."""

    REMOTE_URL = "remote_url"
    LOCAL_FILE = "local_file"
    TOOL_FILE = "tool_file"
    DATASOURCE_FILE = "datasource_file"


class FileAttribute(StrEnum):
    """The attributes that a selector can name."""

    TYPE = "type"
    SIZE = "size"
    NAME = "name"
    MIME_TYPE = "mime_type"
    TRANSFER_METHOD = "transfer_method"
    URL = "url"
    EXTENSION = "extension"
    RELATED_ID = "related_id"
