"""Files as values of a run."""

from .constants import FILE_MODEL_IDENTITY
from .enums import FileAttribute, FileTransferMethod, FileType
from .models import File

__all__ = ["FILE_MODEL_IDENTITY", "File", "FileAttribute", "FileTransferMethod", "FileType"]
