"""What `precision=` came to."""

from __future__ import annotations

from typing import Any

import pytest

from fusegen.pipeline.variants import Variants


def precisions_used(patch: pytest.MonkeyPatch) -> list[str]:
    """Of each kernel over float32 vectors that is asked for from now on, its dots' precision."""
    found: list[str] = []
    executable = Variants.executable

    def noted(self: Variants, key: Any) -> Any:
        if any(d.length and d.number.name == "float32" for d in self.typed.dtypes.values()):
            found.append(self.choices.precision)
        return executable(self, key)

    patch.setattr(Variants, "executable", noted)
    return found
