"""The client without asyncio. `python/scripts/generate_async.py` makes the other one from these files, but for the
transport."""
