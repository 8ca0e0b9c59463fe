"""Small real plugins, and how tests install them."""

from __future__ import annotations

from pathlib import Path


def install(folder: Path, distribution: str, version: str = "1.0", **plugins: str) -> None:
    """Write the metadata of *distribution* into *folder*, which must be on the import path."""
    info = folder / f"{distribution.replace('-', '_')}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n", encoding="utf-8"
    )
    points = "".join(f"{name} = {module}\n" for name, module in plugins.items())
    (info / "entry_points.txt").write_text(f"[sendledger]\n{points}", encoding="utf-8")
