"""Packages of somebody else's: their tests run where they are installed, not from this checkout."""

from __future__ import annotations

collect_ignore_glob = ["*"]
