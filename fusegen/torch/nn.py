"""torch.nn's layers whose work is a row reduction: the same constructors, parameters and errors.

Each is a subclass of torch's, so it also is one, and loads its state. What pipelines do not take
(whole numbers, complex ones, other devices, shapes that are wrong) is torch's to answer.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from fusegen import library
from fusegen.backend.registry import memories
from fusegen.ir.errors import ArgumentError
from fusegen.ir.literals import plain
from fusegen.torch.losses import cross_entropy_loss, soft_cross_entropy_loss
from fusegen.torch.policy import with_wide_results

__all__ = ["CrossEntropyLoss", "LayerNorm", "LogSoftmax", "MoEGate", "RMSNorm", "Softmax"]

_PLACES = frozenset(memory.name for memory in memories()) | {"meta"}
_TYPES = frozenset({torch.float16, torch.bfloat16, torch.float32, torch.float64})


def is_served(x: Any, *others: Any) -> bool:
    """Do pipelines compute with these tensors: of floats, where they have kernels, of one type
    unless autocast mixes them?"""
    present = [t for t in (x, *others) if t is not None]
    if x.layout is not torch.strided or not x.dim():
        return False
    if any(t.dtype not in _TYPES or t.device.type not in _PLACES for t in present):
        return False
    mixed = any(t.dtype != x.dtype for t in present)
    return not mixed or torch.is_autocast_enabled(x.device.type)


class Softmax(torch.nn.Softmax):  # type: ignore[misc]
    """torch.nn.Softmax by `fg.library.softmax`."""

    def forward(self, input: Any) -> Any:
        dim, rank = self.dim, input.dim()
        if dim is None or not -rank <= dim < rank or not is_served(input) or not input.shape[dim]:
            return super().forward(input)
        return library.softmax(input, axis=dim)


class LogSoftmax(torch.nn.LogSoftmax):  # type: ignore[misc]
    """torch.nn.LogSoftmax by `fg.library.log_softmax`."""

    def forward(self, input: Any) -> Any:
        dim, rank = self.dim, input.dim()
        if dim is None or not -rank <= dim < rank or not is_served(input) or not input.shape[dim]:
            return super().forward(input)
        return library.log_softmax(input, axis=dim)


def _columns(norm: Any, x: Any) -> tuple[int, ...] | None:
    """The axes that a norm reduces; None where they are not x's."""
    shape = tuple(norm.normalized_shape)
    fits = len(shape) <= x.dim() and tuple(x.shape[x.dim() - len(shape) :]) == shape
    return tuple(range(-len(shape), 0)) if fits and 0 not in shape else None


class LayerNorm(torch.nn.LayerNorm):  # type: ignore[misc]
    """torch.nn.LayerNorm by `fg.library.layer_norm`."""

    def forward(self, input: Any) -> Any:
        axis = _columns(self, input)
        if axis is None or not is_served(input, self.weight, self.bias):
            return super().forward(input)
        return library.layer_norm(input, self.weight, self.bias, axis=axis, eps=float(self.eps))


class RMSNorm(torch.nn.RMSNorm):  # type: ignore[misc]
    """torch.nn.RMSNorm by `fg.library.rms_norm`."""

    def forward(self, x: Any) -> Any:
        axis = _columns(self, x)
        narrow = self.eps is None and x.dtype.itemsize < 4  # torch's own epsilon, of its own type
        if axis is None or narrow or not is_served(x, self.weight):
            return super().forward(x)
        eps = torch.finfo(x.dtype).eps if self.eps is None else float(self.eps)
        return library.rms_norm(x, self.weight, axis=axis, eps=eps)


class CrossEntropyLoss(torch.nn.CrossEntropyLoss):  # type: ignore[misc]
    """torch.nn.CrossEntropyLoss by one pipeline, `cross_entropy_loss`.

    z_loss: that much of the squared logarithm of the normaliser is added; softcap: logits are
    softcap·tanh(x / softcap). Sums over rows of 16-bit logits are kept in float32.
    """

    z_loss, softcap = 0.0, 0.0

    def __init__(self, *args: Any, z_loss: float = 0.0, softcap: float = 0.0, **more: Any) -> None:
        super().__init__(*args, **more)
        for name, value in (("z_loss", z_loss), ("softcap", softcap)):
            number = plain(value)
            if number is None or isinstance(number, bool) or not 0 <= number < math.inf:
                raise ArgumentError(f"{name} is {value!r:.60}",
                                    fix="Choose a finite number from 0 on; 0 is none.")
            if number:
                setattr(self, name, float(number))

    def forward(self, input: Any, target: Any) -> Any:
        if not self._is_taken(input, target):
            if self.z_loss or self.softcap:
                raise ArgumentError(f"z_loss and softcap do not go with {input.dtype} logits "
                                    f"{tuple(input.shape)} and {target.dtype} targets "
                                    f"{tuple(target.shape)}")
            return super().forward(input, target)
        narrow = input.dtype.itemsize == 2
        rows, weights = self._rows(input, target, narrow)
        loss = rows if self.reduction == "none" else rows.sum()
        if weights is not None and _has_nan(loss) and self._is_outside(input, target):
            return super().forward(input, target)  # which says so
        if self.reduction == "mean":
            loss = loss / (rows.numel() if weights is None else weights.sum())
        widened = narrow and not torch.is_autocast_enabled(input.device.type)
        return loss.to(input.dtype) if widened else loss

    def _rows(self, input: Any, target: Any, narrow: bool) -> tuple[Any, Any]:
        """(loss per row, the rows' weights); None: each is 1."""
        more = {"axis": min(input.dim() - 1, 1), "label_smoothing": float(self.label_smoothing),
                "z_loss": float(self.z_loss), "softcap": float(self.softcap)}
        if target.is_floating_point():
            soft = with_wide_results(soft_cross_entropy_loss) if narrow else soft_cross_entropy_loss
            return soft(input, target, self.weight, **more), None
        hard = with_wide_results(cross_entropy_loss) if narrow else cross_entropy_loss
        loss, weights = hard(input, target, self.weight, ignore_index=self.ignore_index, **more)
        return loss, weights

    def _is_taken(self, input: Any, target: Any) -> bool:
        axis = min(input.dim() - 1, 1)
        if not is_served(input, self.weight) or not input.shape[axis]:
            return False
        if self.weight is not None and tuple(self.weight.shape) != (input.shape[axis],):
            return False
        if target.is_floating_point():
            return target.shape == input.shape and is_served(input, target)
        stays = tuple(n for i, n in enumerate(input.shape) if i != axis)
        return target.dtype == torch.int64 and tuple(target.shape) == stays

    def _is_outside(self, input: Any, target: Any) -> bool:
        """Is there a label that is no class?"""
        n_classes = input.shape[min(input.dim() - 1, 1)]
        bad = ((target < 0) | (target >= n_classes)) & (target != self.ignore_index)
        return bool(bad.any())


def _has_nan(loss: Any) -> bool:
    """As a label that is no class leaves it. Asked where torch says so at once, on the host."""
    if torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active():
        return False
    if loss.device.type != memories()[-1].name or torch._C._len_torch_dispatch_stack():
        return False
    values = loss.detach()
    return math.isnan(values.item()) if not values.dim() else bool(values.isnan().any())


class MoEGate(torch.nn.Module):  # type: ignore[misc]
    """The router of mixture-of-experts models, from logits (…, experts): `fg.library.moe_gate`.

    Returns (gates, experts), K of each for a token, best first; gradients flow through the gates.
    bias: a buffer `bias`, (experts,), zeros at first, is added for the selection only.
    """

    def __init__(
        self, experts: int, k: int = 2, *, score: str = "softmax", renormalize: bool = True,
        scale: float = 1.0, groups: int = 1, groups_kept: int = 1, group_score: str = "max",
        bias: bool = False, device: Any = None,
    ) -> None:
        super().__init__()
        self.experts, self.k, self.score, self.renormalize = experts, k, score, renormalize
        self.scale, self.groups, self.groups_kept = scale, groups, groups_kept
        self.group_score = group_score
        zeros = torch.zeros(experts, dtype=torch.float32, device=device) if bias else None
        self.register_buffer("bias", zeros)

    def forward(self, logits: Any) -> tuple[Any, Any]:
        gates, experts = library.moe_gate(
            logits, self.bias, k=self.k, score=self.score, renormalize=self.renormalize,
            scale=float(self.scale), groups=self.groups, groups_kept=self.groups_kept,
            group_score=self.group_score)
        return gates, experts

    def extra_repr(self) -> str:
        return f"{self.experts}, k={self.k}, score={self.score!r}"
