"""The client for asyncio. All files but the transport are generated from those in `_sync`."""
