"""Cross entropy with all that losses of language models ask for, as one text."""

from __future__ import annotations

from fusegen.lang import lang as fg
from fusegen.lang.value import PerColumn, PerRow, Value
from fusegen.pipeline.decorator import pipeline


@pipeline
def cross_entropy_loss(
    x: Value, labels: PerRow, weight: PerColumn | None = None, *, ignore_index: int = -100,
    label_smoothing: float = 0.0, z_loss: float = 0.0, softcap: float = 0.0,
) -> tuple[Value, Value]:
    """(loss, weight) per row of logits; the mean loss is Σ loss / Σ weight.

    loss: (1 − s)·w[label]·(lse − x[label]) + s/C · Σ_c w[c]·(lse − x[c]) + z_loss·lse², with
    s = label_smoothing, as torch.nn.functional.cross_entropy's (Szegedy et al. 2016), and lse the
    logarithm of the row's normaliser (z-loss: Chowdhery et al. 2022, PaLM, section 5). weight:
    w[label], 1 without. Both are 0 where the label is ignore_index; NaN where it is none.
    softcap: logits are softcap·tanh(x / softcap) (Gemma 2, 2024); 0 leaves them.
    """
    if softcap:
        x = softcap * fg.tanh(x / softcap)
    m = fg.max(x)
    log_sum = fg.log(fg.sum(fg.exp(x - m)))
    kept = labels != ignore_index
    column = fg.where(kept, labels, 0)
    mine = 1.0 if weight is None else fg.take(weight, column)
    loss = (log_sum - (fg.take(x, column) - m)) * mine
    if label_smoothing:
        every = log_sum - (x - m)
        spread = fg.mean(every if weight is None else every * weight)
        loss = (1 - label_smoothing) * loss + label_smoothing * spread
    if z_loss:
        loss = loss + z_loss * (log_sum + m) ** 2
    return fg.where(kept, loss, 0.0), fg.where(kept, mine, 0.0)


@pipeline
def soft_cross_entropy_loss(
    x: Value, shares: Value, weight: PerColumn | None = None, *, label_smoothing: float = 0.0,
    z_loss: float = 0.0, softcap: float = 0.0,
) -> Value:
    """−Σ_c w[c]·t[c]·log softmax(x)[c] per row, for shares t of the classes.

    As torch.nn.functional.cross_entropy's with reduction="none"; see `cross_entropy_loss`.
    """
    if softcap:
        x = softcap * fg.tanh(x / softcap)
    m = fg.max(x)
    log_sum = fg.log(fg.sum(fg.exp(x - m)))
    if label_smoothing:
        shares = shares * (1 - label_smoothing) + label_smoothing / fg.length(x)
    each = (log_sum - (x - m)) * shares
    loss = fg.sum(each if weight is None else each * weight)
    return loss + z_loss * (log_sum + m) ** 2 if z_loss else loss
