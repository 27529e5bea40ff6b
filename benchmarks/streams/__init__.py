"""Row reductions on one GPU beside the memory limits of the same run and beside peers."""
