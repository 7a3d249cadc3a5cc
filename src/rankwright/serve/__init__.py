"""A service that ranks over HTTP: ``rankwright serve``.

`application` has the routes, on Starlette. `requests` validates a request to rank, `model_holder`
has the model and replaces it, `metrics` counts, `openapi` describes, and `server` runs everything
on uvicorn. The service does not import scikit-learn, an engine's library or training code.
"""
