"""Find out before a training whether an engine's library can be loaded, and say what to do if it cannot."""

from __future__ import annotations

from importlib import import_module

_OPENMP = "`brew install libomp` on macOS, `apt-get install libgomp1` on Debian and Ubuntu"


def loading_problems(module: str, install: str, other_engine: str) -> list[str]:
    """Return one sentence if the library cannot be loaded, and an empty list if it can.

    Parameters
    ----------
    module
        The library, which is also the engine's name.
    install
        What to give to ``pip install``.
    other_engine
        The engine that works without the library.

    Examples
    --------
    >>> loading_problems("json", "json", "lightgbm")
    []
    """
    way_out = f"or use engine={other_engine!r}."
    try:
        import_module(module)
    except ImportError as error:
        return [
            f"engine={module!r} needs the library {module}, which cannot be imported ({error}): "
            f'pip install "{install}", {way_out}'
        ]
    # The libraries raise OSError or an error of their own if a shared library is missing.
    except (OSError, ValueError) as error:
        reason = str(error).strip().split("\n")[0]
        return [
            f"engine={module!r}: {module} is installed, but a library that it needs cannot be loaded "
            f"({reason}). Install OpenMP ({_OPENMP}), {way_out}"
        ]
    return []
