"""Pipelines for people: explanations, drawings, and what works on this machine."""
