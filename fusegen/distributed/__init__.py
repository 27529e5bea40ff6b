"""Rows whose columns are sharded over the processes of torch.distributed."""

from fusegen.distributed.plan import ExchangePlan
from fusegen.distributed.sharded import Sharded, sharded

__all__ = ["ExchangePlan", "Sharded", "sharded"]
