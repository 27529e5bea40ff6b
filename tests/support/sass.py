"""Machine code of a GPU, as far as it takes to count the instructions of loops: of sm_90."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from fusegen.backend.cuda.run.nvrtc import code_for

_SIZE = 16  # bytes of an instruction
_BRANCH = 0x947
_MATHS = {0x221, 0x421, 0x223, 0x423, 0x823, 0x308, 0x220, 0x820}  # FADD FFMA MUFU FMUL


def loop_sizes(source: str) -> list[int]:
    """Instructions of the loops that compute and have no others in them, the longest first."""
    (code,) = (text for name, text in _sections(code_for(source, "-arch=sm_90", "counted"))
               if name.startswith(".text."))
    words = [int.from_bytes(code[at : at + _SIZE], "little") for at in range(0, len(code), _SIZE)]
    loops = [(to, at) for at, word in enumerate(words) if (to := _target(word, at)) <= at]
    loops = [(a, b) for a, b in loops if sum(w & 0xFFF in _MATHS for w in words[a:b]) > 4]
    inner = [(a, b) for a, b in loops
             if not any((a, b) != (c, d) and a <= c and d <= b for c, d in loops)]
    return sorted((b - a + 1 for a, b in inner), reverse=True)


def _target(word: int, at: int) -> float:
    """Number of the instruction that this one branches to; infinity of others."""
    if word & 0xFFF != _BRANCH:
        return float("inf")
    high = word >> 34 & (1 << 48) - 1
    high -= (high >> 47) << 48
    return at + 1 + (high << 8 | word >> 16 & 0xFF) * 4 // _SIZE


def _sections(elf: bytes) -> Iterator[tuple[str, bytes]]:
    """Their names and contents."""
    (first,) = struct.unpack_from("<Q", elf, 0x28)
    size, count, names = struct.unpack_from("<HHH", elf, 0x3A)
    heads = [struct.unpack_from("<IIQQQQ", elf, first + i * size) for i in range(count)]
    for name, _, _, _, at, length in heads:
        begin = heads[names][4] + name
        yield elf[begin : elf.index(b"\0", begin)].decode(), elf[at : at + length]
