"""Metrics of the service for Prometheus."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import version

import prometheus_client as prometheus

from rankwright.serve.model_holder import ServedModel

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Metrics:
    """The metrics of one application, in a registry of their own.

    Examples
    --------
    >>> metrics = Metrics()
    >>> metrics.rows.inc(100)
    >>> metrics.registry.get_sample_value("rankwright_rows_total")
    100.0
    """

    def __init__(self) -> None:
        self.registry = prometheus.CollectorRegistry()
        self.requests = self._counter(
            "rankwright_requests", "Requests that were answered.", "path", "status"
        )
        self.seconds = prometheus.Histogram(
            "rankwright_rank_seconds",
            "Time of requests to rank, body included.",
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.rows = self._counter("rankwright_rows", "Documents that were scored.")
        self.unknown_levels = self._counter(
            "rankwright_unknown_levels",
            "Values of categorical features that training has not seen.",
        )
        self.in_progress = self._gauge("rankwright_requests_in_progress", "Requests under way.")
        self.disconnects = self._counter(
            "rankwright_disconnects", "Clients that left before the answer."
        )
        self.swaps = self._counter("rankwright_model_swaps", "Replacements of the model.", "result")
        for result in ("done", "failed"):
            self.swaps.labels(result)
        self._model = prometheus.Info(
            "rankwright_model", "The model that is served.", registry=self.registry
        )
        self._trees = self._gauge("rankwright_model_trees", "Trees of the model.")
        self._loaded = self._gauge(
            "rankwright_model_loaded_timestamp_seconds", "When the model was read."
        )
        self._ready = self._gauge("rankwright_ready", "Whether requests to rank are answered.")
        prometheus.ProcessCollector(registry=self.registry)

    def _counter(self, name: str, text: str, *labels: str) -> prometheus.Counter:
        return prometheus.Counter(name, text, labels, registry=self.registry)

    def _gauge(self, name: str, text: str) -> prometheus.Gauge:
        return prometheus.Gauge(name, text, registry=self.registry)

    def render(self, served: ServedModel, ready: bool) -> bytes:
        """Return all metrics as text."""
        engine = served.model.manifest["engine"]["name"]
        self._model.info(
            {"model": served.version, "engine": engine, "rankwright": version("rankwright")}
        )
        self._trees.set(served.model.n_trees)
        self._loaded.set(served.loaded_at)
        self._ready.set(ready)
        return prometheus.generate_latest(self)

    def collect(self) -> Iterator[prometheus.Metric]:
        """Yield the metrics without the time of creation that the client adds to each counter."""
        for metric in self.registry.collect():
            metric.samples = [
                sample for sample in metric.samples if not sample.name.endswith("_created")
            ]
            yield metric
