"""The way from a pipeline to a shared library; what it takes is loaded when it is asked for."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from fusegen.backend.registry import HERE
from fusegen.lang.blame import blames
from fusegen.lang.signature import check_path


class Exports:
    """The method of pipelines."""

    @blames
    def export(
        self: Any, folder: str | os.PathLike[str], *, targets: Collection[str] = (HERE,),
        dtypes: Collection[str | Mapping[str, str]] = ("float32",),
        row_lengths: Collection[int] = (), form: str = "auto",
        inputs: Collection[str] = (), side_by_side: bool = False, **constants: Any,
    ) -> Path:
        """Write a shared library with a plain C ABI, its header, sources, CMake and pkg-config
        files into `folder`, and return the library's path; needs a C++ compiler: docs/export.md.

        targets: "cpu" (x86-64-v3 there), levels of CPUs, GPUs: code for all of them is in it.
        dtypes: of the inputs, one for all or by input name; each has functions of its own.
        Vectors have their length there: "float32[128]" (64 where nothing is said).
        row_lengths: rows that GPUs are to be fastest for; empty: a choice from 64 to 1048576.
        inputs: optional ones to include.
        side_by_side: functions for GPUs that reduce an axis which is not the last one, too.
        Raises ArgumentError, BackendError, CompilerError, OSError.
        """
        from fusegen.pipeline.export import export

        return export(self, check_path("folder", folder), targets=targets, dtypes=dtypes,
                      row_lengths=row_lengths, form=form, inputs=inputs,
                      side_by_side=side_by_side, constants=constants)
