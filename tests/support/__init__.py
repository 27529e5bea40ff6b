"""What tests share: cases and their meaning, stand-ins for GPUs, drivers of generated code."""
