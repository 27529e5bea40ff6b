"""The compiled helper: calls remembered in C++, and threads of C++ that share their rows.

Prebuilt where the wheel brought it, else made at first use, in the background, while Python serves
calls; where neither is possible Python goes on doing so. It stays in the process until its end.
"""

from __future__ import annotations

import ctypes
import os
import sys
import sysconfig
from collections.abc import Callable
from functools import partial
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import numpy as np

from fusegen.backend.cache.entries import artifact
from fusegen.backend.cpu.loaded import loaded_by
from fusegen.backend.cpu.toolchain import build, find_compiler, version
from fusegen.backend.findings import Finding
from fusegen.backend.host.readers import TORCH_WATCHERS
from fusegen.backend.host.threads import begun, team
from fusegen.backend.notices import LOG
from fusegen.backend.own_files import merged
from fusegen.ir.dtypes import BFLOAT16
from fusegen.ir.shared import steady

NAME = "fusegen_calls"
PREBUILT = Path(__file__).with_name(f"{NAME}.abi3.so")
_MANY = 64  # calls: a process that makes fewer has better things to do than to compile


class Helper:
    """What the process has of it. `module`: None until it is there; `why`: what prevents it."""

    def __init__(self) -> None:
        self.module: Any = None
        self.why = self.how = ""
        self._asked, self._begun = 0, False
        self._torch = False
        self._cupy: type | None = None

    def ask(self, *, may_build: bool = True) -> Any:
        """The module, or None; once that was so often, somebody sees to it in the background, where
        a compiler may be called or none is needed."""
        if self.module is None and not self._begun and (may_build or PREBUILT.exists()):
            self._asked += 1
            if self._asked < _MANY:
                return None
            self._begun = True
            begun(lambda: self.make(may_build=may_build))
        return self.module

    def make(self, *, may_build: bool = True) -> None:
        """Load it, built or to be built. What is in the way is kept in `why`."""
        self._begun = True
        try:
            self.why = _hindrance()
            if not self.why:
                with steady():
                    module, self.how = _made(may_build)
                    _verify(module)  # imports as well
                self.module = module
        except Exception as error:  # whatever it is, Python serves calls as well
            self.why = str(error) or repr(error)
        if self.why:
            LOG.info("calls are remembered in Python: %s", self.why)

    def finding(self) -> Finding:
        """Which one serves calls; made if it is not yet."""
        if self.module is None:
            self.make()
        what = "small calls"
        if self.module is not None:
            return Finding(what, f"served by compiled code, {self.how}", True)
        return Finding(what, f"served by Python, some µs slower: {self.why}",
                       os.environ.get("FUSEGEN_HELPER") == "0",
                       "install a C++ compiler and Python's headers")

    def show_torch(self) -> None:
        """Tell it how torch shows its memory, if it does: else it refuses tensors."""
        if not self._torch and "torch" in sys.modules:
            self._torch = _show_torch(self.module, sys.modules["torch"])

    def show_cupy(self, array: type) -> None:
        """Tell it which arrays are CuPy's."""
        if self._cupy is not array:
            self.module.gpu_arrays(array)
            self._cupy = array

    def forget(self) -> None:
        """In a forked child: nobody sees to it any more."""
        self._begun = self.module is not None or bool(self.why)


HELPER = Helper()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=lambda: HELPER.forget())


def _hindrance() -> str:
    """Why there can be none here; "" where nothing is known to prevent it."""
    if os.environ.get("FUSEGEN_HELPER") == "0":
        return "FUSEGEN_HELPER is 0"
    if sys.implementation.name != "cpython" or sys.platform == "win32":
        return f"not for {sys.implementation.name} on {sys.platform}"
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        return "not for Python without its lock, which guards what is remembered"
    return ""


def _made(may_build: bool) -> tuple[Any, str]:
    """(the module, where it is from). Raises FusegenError, ImportError, OSError."""
    if PREBUILT.exists():
        try:
            return _loaded(str(PREBUILT)), "prebuilt"
        except ImportError as error:  # of an older system's libraries
            LOG.info("the prebuilt helper cannot be loaded: %s", error)
    if not may_build:
        raise ImportError("no compiler may be called")
    compiler = find_compiler()
    if compiler is None:
        raise ImportError("no C++ compiler was found")
    include = sysconfig.get_paths()["include"]
    if not (Path(include) / "Python.h").exists():
        raise ImportError(f"Python's headers are not in {include}: install python3-dev")
    flags = ("-O2", "-pthread", "-fvisibility=hidden", f"-I{include}")
    text = source()
    key = ("helper", text, str(sys.hexversion), *compiler.command(flags), version(compiler))

    def make(cancelled: Callable[[], bool]) -> bytes:
        return build(compiler, flags, text, [f"PyInit_{NAME}"], cancelled)

    return loaded_by(_loaded, artifact(key, NAME, make)), "built here"


def source() -> str:
    """One text of all of its files, each once."""
    return merged("cpu/calls/calls.cpp")


def _loaded(path: str) -> Any:
    loader = ExtensionFileLoader(NAME, path)
    spec = spec_from_file_location(NAME, path, loader=loader)
    assert spec is not None
    module = module_from_spec(spec)
    loader.exec_module(module)
    return module


def _verify(module: Any) -> None:
    """Raises ImportError where arrays do not lie in memory as their library's ABI says."""
    whole = np.arange(24.0).reshape(4, 6)
    fixed = whole[::-2, 1:4]
    fixed.setflags(write=False)
    within: Any = np.core if np.__version__.startswith("1.") else sys.modules["numpy._core"]
    module.setup(np.ndarray, within.multiarray._ARRAY_API, team)
    for array in (whole, fixed, whole.astype(">f4"), np.zeros((2, 0, 3), BFLOAT16.numpy),
                  np.array(7, "i8"), whole.T):
        want = (array.__array_interface__["data"][0], array.shape, array.strides, array.dtype.num,
                array.dtype.byteorder, array.flags.writeable)
        if module.seen(array) != want:
            raise ImportError(f"NumPy {np.__version__} has arrays of another form")
        made = module.made(array.shape, array.dtype)
        if type(made) is not np.ndarray or not made.flags.c_contiguous or \
                (made.shape, made.dtype) != (array.shape, array.dtype):
            raise ImportError(f"NumPy {np.__version__} makes other arrays")


def _show_torch(module: Any, torch: Any) -> bool:
    """Does it? By DLPack's C exchange API, from torch 2.10 on. It stands in the type's own dict:
    what subclasses inherit may show memory that they do not have."""
    api = vars(torch.Tensor).get("__dlpack_c_exchange_api__")
    asked = [getattr(torch._C, n, None) for n in TORCH_WATCHERS]
    if api is None or None in asked:
        return False
    types = (torch.Tensor, torch.nn.Parameter)
    shown = bool(module.tensors(types, api, torch.Tensor.is_neg, torch.is_grad_enabled,
                                tuple(asked), torch.autograd.forward_ad))
    return shown and (_show_keys(module, torch) or True)


def _show_keys(module: Any, torch: Any) -> bool:
    """Show it the keys by which torch's dispatcher tells what a thread asks for, which it then
    reads and calls no watchers; not where they are not seen to change with what these say."""
    module.keys(0)
    library = Path(torch.__file__).with_name("lib") / "libc10.so"
    if sys.platform != "linux" or not library.exists() or torch.is_autocast_enabled("cpu"):
        return False
    keys = partial(module.keys, ctypes.CDLL(str(library))._handle)
    plain = [keys()]
    torch.set_autocast_enabled("cpu", True)
    try:
        watched = [keys()]
    finally:
        torch.set_autocast_enabled("cpu", False)
    plain.append(keys())
    with torch.utils._python_dispatch.TorchDispatchMode():
        watched.append(keys())
    plain.append(keys())
    seen = all(plain) and not any(watched)
    if not seen:
        module.keys(0)
    return seen
