"""``python -m sendledger_sandbox`` serves the stand-ins."""

import sys

from sendledger_sandbox.cli import main

sys.exit(main())
