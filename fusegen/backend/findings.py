"""What a machine has and lacks, as `fusegen doctor` says it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of `fusegen doctor`; `fix` says what to do where something is missing."""

    what: str
    state: str
    good: bool
    fix: str = ""

    def __str__(self) -> str:
        line = f"{'ok     ' if self.good else 'missing'}  {self.what:<14} {self.state}"
        return f"{line}\n{'':25}{self.fix}" if self.fix and not self.good else line


def version_of(package: str) -> str | None:
    """The version that is installed; None: it is not."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return None
