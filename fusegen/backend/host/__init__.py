"""This machine: threads that share a call, and arrays in its memory."""
