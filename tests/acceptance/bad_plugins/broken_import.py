"""A plugin whose module cannot be imported."""

from __future__ import annotations

raise RuntimeError("this machine has no pigeons")
