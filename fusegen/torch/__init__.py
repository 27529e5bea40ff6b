"""Pipelines as torch has its own operations: operators, gradients, modules."""

from fusegen.torch import nn
from fusegen.torch.attention import scaled_dot_product_attention
from fusegen.torch.functions import Function, op
from fusegen.torch.modules import PipelineModule, Swap, module, patch

__all__ = ["Function", "PipelineModule", "Swap", "module", "nn", "op", "patch",
           "scaled_dot_product_attention"]
