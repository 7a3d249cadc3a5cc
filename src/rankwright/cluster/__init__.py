"""Training on several machines: each has some of the queries, and all grow the same trees.

`collective` adds up over the machines, `pieces` and `worker` hold the work of each machine, `dask` starts them, and
`training` leads a fit. These modules are imported only if a fit asks for a cluster.
"""
