"""Compiled loops over plain arrays: the numbers of the package, without its names.

Every kernel is a plain function over a range of queries ``[q0, q1)``, compiled as `jit` says; `threads` gives each
thread a range. Kernels import NumPy and Numba only, and do not know which metric or objective they serve.
"""
