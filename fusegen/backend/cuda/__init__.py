"""CUDA C++ for GPUs: schedules and their prices, the text, and launches."""
