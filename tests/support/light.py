"""For processes that tests start: imported first, their C++ is that which all tests share."""

from __future__ import annotations

from fusegen.backend.cpu import toolchain

from . import compilers

toolchain._attempt = compilers.shared
toolchain.FLAGS = compilers.LIGHT
