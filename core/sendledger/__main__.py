"""``python -m sendledger`` is the ``sendledger`` command."""

from sendledger.cli import main

main()
