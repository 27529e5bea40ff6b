"""Arrays on GPUs where CuPy is not installed: libraries that `fusegen.load` read run on them."""
