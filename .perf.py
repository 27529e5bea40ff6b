import sys, time, math
import numpy as np, cupy as cp, torch
sys.path.insert(0,"tests")
import fusegen as fg
from support import vector_cases as vc
rng=np.random.default_rng(0)
def d(*s): return rng.standard_normal(s).astype("f4")
def t(f,n=7):
    f(); cp.cuda.Device().synchronize(); r=[]
    for _ in range(n):
        a=time.perf_counter(); f(); cp.cuda.Device().synchronize(); r.append(time.perf_counter()-a)
    return sorted(r)[n//2]*1e3
x,y,b=[cp.asarray(a) for a in (d(100000,3),d(100000,3),d(100000))]
ms=t(lambda: vc.gaussian(x,y,b,s=1.5)); print("gaussian 1e5x1e5 d3: %.2f ms, %.2e pairs/s"%(ms,1e10/ms*1e3))
@fg.pipeline
def lse(x: fg.RowVector, y: fg.ColumnVector): return fg.logsumexp(-fg.sqdist(x,y)/2)
ms=t(lambda: lse(x,y)); print("lse d3: %.2f ms, %.2e pairs/s"%(ms,1e10/ms*1e3))
q,k,v=[cp.asarray(d(4,16,4096,64)) for _ in range(3)]
print("attention f32 4x16x4096x64: %.2f ms"%t(lambda: vc.attention(q,k,v,scale=.125)))
Q,K,V=[torch.as_tensor(a,device="cuda") for a in (q,k,v)]
print("torch f32 SDPA: %.2f"%t(lambda: torch.nn.functional.scaled_dot_product_attention(Q,K,V)))
x,y=cp.asarray(d(10000,128)),cp.asarray(d(1000000,128))
ms=t(lambda: vc.nearest(x,y,k=10),3); print("nearest 10 1e4x1e6 d128 %.2f ms"%ms)
