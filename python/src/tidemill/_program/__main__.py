"""Lets `python -m tidemill._program` work where scripts are not on the path."""

from . import main

main()
