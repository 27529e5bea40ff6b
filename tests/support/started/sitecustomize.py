"""For processes whose own text cannot import support.light: with this folder on PYTHONPATH, Python
does it as it starts."""

from support import light  # noqa: F401
