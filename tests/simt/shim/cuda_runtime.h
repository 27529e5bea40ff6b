// Everything that kernels use of this header is in cuda_shim.h, which is always included.
#pragma once
