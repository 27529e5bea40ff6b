"""The little that has to be known about CUDA source text before a compiler sees it."""

from __future__ import annotations

import functools
import re

_RECENT = 64  # sources that are asked for several times on their way to a module
_COMMENT_OR_STRING = re.compile(
    r"""//[^\n]* | /\*.*?\*/ | "(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])*'""",
    re.DOTALL | re.VERBOSE,
)
_KERNEL = re.compile(
    r"""__global__ \s+ (?:__launch_bounds__|__cluster_dims__|\(.*?\)|void|static|\s)*
        \b (\w+) \s* \(""",
    re.DOTALL | re.VERBOSE,
)


@functools.lru_cache(_RECENT)
def blank_comments_and_strings(source: str) -> str:
    """Return the source with comments and literals replaced by spaces; lines keep their numbers."""
    return _COMMENT_OR_STRING.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), source)


@functools.lru_cache(_RECENT)
def blank_comments(source: str) -> str:
    """Return the source with comments replaced by spaces; literals and line numbers are kept."""

    def blank(match: re.Match[str]) -> str:
        return re.sub(r"[^\n]", " ", match[0]) if match[0].startswith("/") else match[0]

    return _COMMENT_OR_STRING.sub(blank, source)


@functools.lru_cache(_RECENT)
def without_comments(source: str) -> str:
    """Return what a compiler sees of the source, line by line; all of it where a line goes on."""
    if "\\\n" in source or "\\\r" in source:  # so may a comment
        return source
    return "\n".join(line.rstrip() for line in blank_comments(source).splitlines())


def find_kernels(source: str) -> list[str]:
    """Return the names of all ``__global__`` functions, each once, in order of appearance."""
    return list(dict.fromkeys(_KERNEL.findall(blank_comments_and_strings(source))))
