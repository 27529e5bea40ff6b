"""Tiles of rows and columns of vectors: their engines, and which of them run a program."""
