"""What is known of a run of a benchmark, and where its figures are saved."""

from __future__ import annotations

import datetime
import json
import platform
import subprocess
from pathlib import Path
from typing import Any


def described_run(commit: str | None, **choices: Any) -> dict[str, Any]:
    """When, what and on what is measured; `commit` where git cannot say it."""
    return {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "commit": commit or _said("git", "describe", "--always", "--dirty", "--abbrev=40"),
        "python": platform.python_version(),
        "driver": _said("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"),
        **choices,
    }


def save(path: Path | None, report: dict[str, Any]) -> None:
    """Write a report as JSON, if there is a path."""
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _said(*command: str) -> str | None:
    """What a program prints, None where it is missing or fails."""
    try:
        run = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parent)
    except OSError:
        return None
    return run.stdout.strip() if run.returncode == 0 else None
