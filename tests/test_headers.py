"""Fixed headers: each compiles alone, has what it needs, and is of one namespace."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import simt
from support import nvrtc

import fusegen as fg
from fusegen import library
from fusegen.backend.cpu.emit import headers as cpu_headers
from fusegen.backend.cpu.toolchain import find_compiler, known_unusable
from fusegen.backend.emit.comments import code
from fusegen.backend.emit.headers import header, needed
from fusegen.backend.emit.source import ABOVE, Source
from fusegen.backend.own_files import template_root
from fusegen.backend.target import CPU_TARGETS, host_cpu
from fusegen.ir.names import c_identifier

ROOT = fg.include_dir()
HEADERS = tuple(sorted(p.relative_to(ROOT).as_posix() for p in ROOT.rglob("*.*")))
CUDA, CPU = (tuple(n for n in HEADERS if n.endswith(suffix)) for suffix in (".cuh", ".hpp"))

compiled = pytest.mark.skipif(nvrtc.available() is not None, reason=str(nvrtc.available()))

CLUSTERS = ("fusegen/cluster.cuh", "fusegen/meet/cluster.cuh", "fusegen/meet/strip/cluster.cuh",
            "fusegen/topk/cluster.cuh", "fusegen/topk/gather.cuh",
            "fusegen/topk/collected_cluster.cuh")
OLDEST = dict.fromkeys(CLUSTERS, ("sm_90",))
"""What only some GPUs have."""

KERNEL = 'extern "C" __global__ void nothing(int* out) { out[0] = 1; }\n'


def test_there_are_headers() -> None:
    assert len(CUDA) > 20
    assert len(CPU) > 10
    assert sorted((*CUDA, *CPU)) == [*HEADERS]


@pytest.mark.parametrize("name", HEADERS)
def test_form(name: str) -> None:
    """What can be inlined: plain lines, no name of a program's, no macro that outlives the file."""
    found = header(name)
    for line in (ROOT / name).read_text().splitlines():
        assert line.isprintable()
        assert line == line.rstrip()
        assert len(line) <= 120
    assert not re.search(r"#define|\{%|\{\{|using namespace", found.code)
    assert "\n\n\n" not in found.code
    for each in found.includes:
        if each.startswith("fusegen/"):
            header(each)


@pytest.mark.parametrize("name", CUDA)
def test_every_header_includes_what_it_needs(name: str) -> None:
    """Before anything else: inlined for the oldest of GPUs and included for a newer one, or the
    other way about. `test_both_forms_are_the_same_program` holds one against the other."""
    source = Source(KERNEL, headers=(name,))
    assert ABOVE in source.text()
    assert f"#include <{name}>" in source.text(include=True)
    if nvrtc.available() is None:
        for at, arch in enumerate(OLDEST.get(name, ("sm_75", "sm_90"))):
            nvrtc.check_names(source.text(include=(CUDA.index(name) + at) % 2 == 0), arch)
    elif simt.available() is None:
        simt.compile_module(source.text())
    else:
        pytest.skip("neither NVRTC nor a C++ compiler is here")


def test_headers_for_cpus_have_the_names_that_kernels_say() -> None:
    for stem, names in cpu_headers.HEADERS.items():
        found = header(f"fusegen/cpu/{stem}.hpp").code
        assert not [n for n in names if not re.search(rf"\b{n}\b", code(found))], stem
        internal = "namespace {\n\n", "\n}  // namespace\n"  # units for several processors meet
        assert found.startswith(internal[0]), stem
        assert found.endswith(internal[1]), stem
    assert {f"fusegen/cpu/{stem}.hpp" for stem in cpu_headers.HEADERS} == {*CPU}


def test_no_program_is_called_as_the_headers_are() -> None:
    assert c_identifier("fusegen") == "fusegen_"


@pytest.mark.long
@pytest.mark.skipif(find_compiler() is None, reason="no C++ compiler is here")
@pytest.mark.parametrize("real", ["float", "double"])
def test_headers_for_cpus_include_what_they_need(real: str, tmp_path: Path) -> None:
    """Each before all others, of one type; and all of both, for every processor that this machine's
    compiler knows."""
    compiler = find_compiler()
    assert compiler is not None
    for target in (t for t in CPU_TARGETS.values() if not known_unusable(compiler, t.flags)):
        each = target.name == host_cpu().name and real == "float"
        for at in range(len(CPU) if each else 1):
            file = tmp_path / f"{target.name}_{at}.cpp"
            includes = (f"#include <{name}>\n" for name in (*CPU[at:], *CPU[:at]))
            file.write_text(GIVEN.format(real=real, size=target.vector_bytes) + "".join(includes))
        files = [str(path) for path in sorted(tmp_path.glob(f"{target.name}_*.cpp"))]
        command = (*compiler.command(target.flags), "-Wall", "-Werror", "-Wno-psabi",
                   "-fsyntax-only", f"-I{ROOT}", *files)
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


GIVEN = """#include <cstdint>
namespace fusegen {{
namespace {{
typedef {real} real;
typedef real lanes __attribute__((vector_size({size})));
constexpr int64_t list_block = 1024;
}}
}}
"""


def test_needed_first_and_once() -> None:
    ours, theirs = needed([*reversed(CUDA), *CUDA])
    names = [h.name for h in ours]
    assert sorted(names) == sorted(CUDA)
    for one in ours:
        before = names[: names.index(one.name)]
        assert {n for n in one.includes if n.startswith("fusegen/")} <= {*before}
    assert set(theirs) <= {"cuda_fp16.h", "cuda_bf16.h"}


@compiled
@pytest.mark.parametrize("name", ["softmax", "softmax_topk", "layer_norm"])
def test_both_forms_are_the_same_program(name: str) -> None:
    pipeline = library.PIPELINES[name]
    more = {"k": 5} if "k" in pipeline.signature.constants else {}
    kinds = {"dtype": "bfloat16", "n_cols": 25_000, **more}
    alone, named = pipeline.source(**kinds), pipeline.source(include=True, **kinds)
    below = alone.split(ABOVE)[1].strip()
    assert named.endswith(f"{below}\n")
    assert "namespace fusegen {" not in named
    first, second = (nvrtc.valid_for(text, "sm_90").reports for text in (alone, named))
    assert first == second != ()


@pytest.mark.long
def test_the_command_says_where_headers_are() -> None:
    done = subprocess.run([sys.executable, "-m", "fusegen", "source", "--include-dir"],
                          capture_output=True, text=True, check=True)
    assert Path(done.stdout.strip()) == ROOT
    done = subprocess.run([sys.executable, "-m", "fusegen", "source", "softmax", "--include"],
                          capture_output=True, text=True, check=True)
    assert "#include <fusegen/walk.cuh>" in done.stdout


def _parts(path: Path, known: set[Path]) -> set[Path]:
    """A C++ file of the templates and all that it includes by `"…"`."""
    if path not in known:
        known.add(path)
        for name in re.findall(r'^#include "(.*)"', path.read_text(encoding="utf-8"), re.M):
            found = (path.parent / name, template_root() / name)
            _parts(next(p for p in found if p.is_file()), known)
    return known


@pytest.mark.parametrize("name", ["cpu/calls/calls.cpp", "xla/cpu.cpp", "xla/cuda.cpp"])
def test_files_that_are_compiled_together_name_different_types(name: str) -> None:
    """Also where the library that one of them needs is not installed."""
    owners: dict[str, set[str]] = {}
    for path in _parts(template_root() / name, set()):
        text = path.read_text(encoding="utf-8")
        for kind in re.findall(r"^(?:struct|class) (\w+)[^;]*\{", text, re.M):
            owners.setdefault(kind, set()).add(path.name)
    assert len(owners) > 5
    assert {kind: files for kind, files in owners.items() if len(files) > 1} == {}
