"""The client for asyncio and trio. All files but the transport are generated from those in `_sync`."""
