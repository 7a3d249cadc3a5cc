"""Compiled loops over plain arrays: all the arithmetic of the package, without the names of metrics and objectives.

A kernel is a plain function over a range of queries ``[q0, q1)``, compiled as `jit` says; `threads` gives each
thread a range. Kernels import NumPy and Numba only, and do not know which metric or objective they serve.

Arguments that belong together are passed as a NamedTuple. Small functions that are called many times per query take
plain arrays instead, because unpacking a NamedTuple takes about 0.1 us for ten arrays.
"""
