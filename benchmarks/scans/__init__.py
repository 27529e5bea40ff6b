"""Cells drawn at random for benchmarks/scan.py."""
