"""Every failure fusegen can report. The user's errors and ours have different roots."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fusegen.ir.loc import Loc


class FusegenError(Exception):
    """Root of everything fusegen raises on purpose."""


class InternalError(FusegenError):
    """fusegen broke a rule of its own; never the user's fault. Please report it."""


class PipelineError(FusegenError):
    """The user's text, data or request cannot be served: what, where, why, what to do."""

    def __init__(
        self, what: str, *, where: Loc | None = None, why: str = "", fix: str = ""
    ) -> None:
        self.what, self.where, self.why, self.fix = what, where, why, fix
        self.inner: Loc | None = None  # a line of ours that it was first noticed at
        self.fix_of_call = ""  # what who calls can do, where the text is not theirs to change
        super().__init__(self._text())

    def move(self, where: Loc) -> None:
        """Say it of another line: the user's, where it was noticed at one of ours."""
        self.where, self.inner = where, self.where
        self.fix = self.fix_of_call or self.fix
        self.args = (self._text(),)

    def _text(self) -> str:
        lines = [f"{self.where}: {self.what}" if self.where is not None else self.what]
        if self.where is not None and self.where.text:
            lines.append(f"    {self.where.shown}")
        lines += [f"  {part}" for part in (self.why, self.fix) if part]
        if self.inner is not None:
            lines.append(f"  (noticed at {self.inner.short}  {self.inner.shown})")
        return "\n".join(lines)


class TraceError(PipelineError):
    """The function is not a row pipeline: a Python branch on a value, a foreign object, …"""


class UnknownName(TraceError, AttributeError):
    """A word that the language, or a pipeline value, does not have; says what to write instead."""


class DTypeError(PipelineError):
    """An operation does not exist for the element types it was given."""


class ShapeError(PipelineError):
    """Arrays whose shapes do not fit one another, the axis, or K."""


class ArgumentError(PipelineError):
    """A wrong keyword, constant, form, target, device or name."""


class LawViolation(PipelineError):
    """A law that a merged operator must obey is false; carries the counterexample."""

    def __init__(
        self, what: str, *, where: Loc | None = None, why: str = "", fix: str = "",
        counterexample: object = None,
    ) -> None:
        self.counterexample = counterexample  # derivation.Counterexample of a monoid of one's own
        super().__init__(what, where=where, why=why, fix=fix)


class UnprovedLaw(PipelineError):
    """A law of a monoid of the user's own was neither proved nor refuted, and not assumed."""


class BackendError(FusegenError):
    """A backend cannot run here (no compiler, no CuPy, no device); says what to install."""


class ExchangeError(PipelineError):
    """Processes that hold shards of the same rows called differently, or one of them is lost."""


class CompilerError(BackendError):
    """A compiler failed, was stopped, or wrote what is no library; carries what it said."""

    def __init__(
        self, command: Sequence[str], what: str, said: str = "", *, fix: str = "",
        refused: bool = False,
    ) -> None:
        self.command, self.what, self.said, self.fix = tuple(command), what, said, fix
        self.refused = refused  # by a compiler that ran to its end: what it was given, or all
        lines = [f"the compiler {what}", f"  {' '.join(command)}"]
        lines += [f"  | {line}" for line in said.splitlines()]
        super().__init__("\n".join([*lines, *([f"  {fix}"] if fix else [])]))

    def __reduce__(self) -> tuple[Any, ...]:
        return _compiler_error, (self.command, self.what, self.said, self.fix, self.refused)


def _compiler_error(
    command: Sequence[str], what: str, said: str, fix: str, refused: bool
) -> CompilerError:
    """One that comes from another process."""
    return CompilerError(command, what, said, fix=fix, refused=refused)
