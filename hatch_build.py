"""Puts the compiled helper of calls into wheels, where FUSEGEN_BUILD_HELPER=1 asks for that.

One wheel for a platform then serves every Python from 3.11 on. Without it wheels are for any
platform, and the helper is made where it is used.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FLAGS = ("-std=c++17", "-O2", "-fPIC", "-shared", "-pthread", "-fvisibility=hidden",
         "-static-libstdc++", "-static-libgcc")


class HelperHook(BuildHookInterface[Any]):
    """Compiles templates/cpu/calls for the platform that builds."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if os.environ.get("FUSEGEN_BUILD_HELPER") != "1" or self.target_name != "wheel":
            return
        templates = Path(self.root) / "templates"
        source = templates / "cpu" / "calls" / "calls.cpp"
        self._folder = tempfile.TemporaryDirectory()
        made = Path(self._folder.name) / "fusegen_calls.abi3.so"
        compiler = shlex.split(os.environ.get("CXX", "c++"))
        headers = (f"-I{templates}", f"-I{sysconfig.get_paths()['include']}")
        subprocess.run([*compiler, *FLAGS, *headers, str(source), "-o", str(made)], check=True)
        build_data["force_include"][str(made)] = f"fusegen/backend/cpu/{made.name}"
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["pure_python"], build_data["tag"] = False, f"cp311-abi3-{platform}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if hasattr(self, "_folder"):
            self._folder.cleanup()
