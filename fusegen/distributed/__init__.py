"""Rows whose columns are sharded over the processes of torch.distributed."""

from fusegen.distributed.sharded import Sharded, sharded

__all__ = ["Sharded", "sharded"]
