"""Programs over vectors as CUDA C++: tiles of rows × columns."""
