"""C++ for the CPU: its schedule, its text, compiling it, and running it on threads."""
