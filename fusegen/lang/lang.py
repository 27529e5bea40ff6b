"""The language: what may be written inside a pipeline, besides Python's operators.

x stands for an element value (one per position), m for a row value, lists for top-K results.
"""

from __future__ import annotations

from fusegen.lang.columns import index as index
from fusegen.lang.columns import length as length
from fusegen.lang.columns import ragged as ragged
from fusegen.lang.columns import sections as sections
from fusegen.lang.columns import take as take
from fusegen.lang.elementwise import (
    abs as abs,
)
from fusegen.lang.elementwise import (
    cast as cast,
)
from fusegen.lang.elementwise import (
    ceil as ceil,
)
from fusegen.lang.elementwise import (
    cos as cos,
)
from fusegen.lang.elementwise import (
    erf as erf,
)
from fusegen.lang.elementwise import (
    exp as exp,
)
from fusegen.lang.elementwise import (
    exp2 as exp2,
)
from fusegen.lang.elementwise import (
    expm1 as expm1,
)
from fusegen.lang.elementwise import (
    floor as floor,
)
from fusegen.lang.elementwise import (
    isfinite as isfinite,
)
from fusegen.lang.elementwise import (
    isinf as isinf,
)
from fusegen.lang.elementwise import (
    isnan as isnan,
)
from fusegen.lang.elementwise import (
    log as log,
)
from fusegen.lang.elementwise import (
    log1p as log1p,
)
from fusegen.lang.elementwise import (
    log2 as log2,
)
from fusegen.lang.elementwise import (
    maximum as maximum,
)
from fusegen.lang.elementwise import (
    minimum as minimum,
)
from fusegen.lang.elementwise import (
    round as round,
)
from fusegen.lang.elementwise import (
    rsqrt as rsqrt,
)
from fusegen.lang.elementwise import (
    sigmoid as sigmoid,
)
from fusegen.lang.elementwise import (
    sign as sign,
)
from fusegen.lang.elementwise import (
    sin as sin,
)
from fusegen.lang.elementwise import (
    sqrt as sqrt,
)
from fusegen.lang.elementwise import (
    tanh as tanh,
)
from fusegen.lang.elementwise import (
    where as where,
)
from fusegen.lang.elementwise import (
    xlogy as xlogy,
)
from fusegen.lang.reductions import (
    all as all,
)
from fusegen.lang.reductions import (
    any as any,
)
from fusegen.lang.reductions import (
    argmax as argmax,
)
from fusegen.lang.reductions import (
    argmin as argmin,
)
from fusegen.lang.reductions import (
    count as count,
)
from fusegen.lang.reductions import (
    logsumexp as logsumexp,
)
from fusegen.lang.reductions import (
    max as max,
)
from fusegen.lang.reductions import (
    mean as mean,
)
from fusegen.lang.reductions import (
    min as min,
)
from fusegen.lang.reductions import (
    prod as prod,
)
from fusegen.lang.reductions import (
    sum as sum,
)
from fusegen.lang.reductions import (
    topk as topk,
)
from fusegen.lang.reductions import (
    var as var,
)
from fusegen.lang.vectors import (
    dot as dot,
)
from fusegen.lang.vectors import (
    inner as inner,
)
from fusegen.lang.vectors import (
    row as row,
)
from fusegen.lang.vectors import (
    sqdist as sqdist,
)
