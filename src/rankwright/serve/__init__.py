"""A service that ranks over HTTP: ``rankwright serve``.

`application` answers requests, `requests` validates them, `model_holder` has the model and swaps it, `protocol` limits
slow clients, `server` runs it all on uvicorn. Nothing here imports scikit-learn, an engine's library or training code.
"""
