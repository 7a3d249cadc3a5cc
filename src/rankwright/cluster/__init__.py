"""Training on several machines: each has some of the queries, and all grow the same trees.

`collective` adds up over the machines, `pieces` and `worker` are what each of them does, `dask` starts them, and
`training` leads a fit. Nothing here is imported unless a fit asks for a cluster.
"""
