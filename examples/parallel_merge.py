"""Equation 4: the operator ⊕ is associative and commutative, so any tree of merges will do.

On a GPU each thread folds its own elements; lanes merge by shuffles, warps through shared memory.
The CUDA below was derived from the text: `merge` is the paper's ⊕, `warp_reduce` its butterfly.
"""

import fusegen as fg


@fg.pipeline
def logsumexp(x):
    m = fg.max(x)
    return m + fg.log(fg.sum(fg.exp(x - m)))


derivation = logsumexp.derivation()
print(derivation)
assert {o.name for o in derivation.obligations} >= {"pointwise identity", "cocycle", "unit"}
assert derivation.proved

source = logsumexp.source(target="sm_90")
start = source.index("// a ⊕ b")
print(source[start : source.index("extern", start)])
assert "__shfl_xor_sync" in source

# The same operator, folded over random splits and orders of random rows, against the text.
print(fg.check(logsumexp))
