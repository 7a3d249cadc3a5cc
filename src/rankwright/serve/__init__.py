"""A service that ranks over HTTP: ``rankwright serve``.

`application` has the routes, on Starlette. `requests` validates a request to rank, `model_holder`
has the model and replaces it, `metrics` counts, `openapi` describes, and `server` runs everything
on uvicorn. The service does not import scikit-learn, an engine's library or training code.
"""

from __future__ import annotations


def check_libraries() -> None:
    """Raise ImportError, with the name of the extra, unless the libraries of the service are installed."""
    try:
        import prometheus_client  # noqa: F401
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise ImportError(
            f"the service needs {error.name}, which is not installed: "
            'pip install "rankwright[serve]".'
        ) from None
