"""Distributions of a test's own."""

from pathlib import Path


def install_distribution(site: Path, name: str, **files: str) -> None:
    """Install a distribution of these modules below a directory that is to be on the path."""
    metadata = site / f"{name}-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    for module, text in files.items():
        (site / f"{module}.py").write_text(text)
    rows = [f"{module}.py,," for module in files]
    (metadata / "RECORD").write_text("\n".join([*rows, f"{metadata.name}/METADATA,,", ""]))
