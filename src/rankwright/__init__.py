"""Gradient-boosted tree rankers that optimise the ranking metric itself.

Names are imported on first use, so that ``import rankwright`` is quick and loads no engine. `__init__.pyi` lists them.
"""

import lazy_loader

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
