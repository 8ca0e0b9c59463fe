"""The ``sendledger`` command: one module a command, and one way to say what went wrong."""

from sendledger.cli.app import main

__all__ = ["main"]
