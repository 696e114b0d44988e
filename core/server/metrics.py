"""Numbers for Prometheus, in a registry of the server's own."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from .admission import Admission

CONTENT_TYPE = CONTENT_TYPE_LATEST
_SECONDS = (0.05, 0.1, 0.2, 0.35, 0.5, 1, 2, 5, 10, 30, 60, 120, 300, 600)
_FACTORS = (0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9, 1, 1.2, 1.5, 2, 3, 5, 10)


class Metrics:
    """What a server counts. Labels have few values: paths are those of routes, never what a client wrote."""

    def __init__(self, admission: Admission, places: int) -> None:
        self._registry = CollectorRegistry()
        self.requests = Counter(
            "ggtts_requests", "Requests answered.", ["route", "status"], registry=self._registry
        )
        self.first_byte = Histogram(
            "ggtts_time_to_first_byte_seconds",
            "From the arrival of a speech request to the first byte of its audio, waiting included.",
            buckets=_SECONDS,
            registry=self._registry,
        )
        self.wait = Histogram(
            "ggtts_queue_seconds",
            "How long speech requests waited for a place.",
            buckets=_SECONDS,
            registry=self._registry,
        )
        self.real_time_factor = Histogram(
            "ggtts_real_time_factor",
            "Seconds that a speech took per second of audio; below 1 is faster than real time.",
            buckets=_FACTORS,
            registry=self._registry,
        )
        self.occupancy = Histogram(
            "ggtts_batch_occupancy",
            "How many speeches were being made when one began, itself included.",
            buckets=tuple(range(1, places + 1)),
            registry=self._registry,
        )
        self.audio = Counter("ggtts_audio_seconds", "Seconds of audio made.", registry=self._registry)
        self.cut = Counter(
            "ggtts_cut_responses",
            "Answers that ended early: the client left, it took too long, or it failed.",
            ["reason"],
            registry=self._registry,
        )
        self._follow("ggtts_active_requests", "Speeches being made.", lambda: admission.active)
        self._follow(
            "ggtts_queue_length", "Speech requests that wait for a place.", lambda: admission.waiting
        )
        self._follow("ggtts_batch_places", "How many speeches are made at a time at most.", lambda: places)

    def exposition(self) -> bytes:
        """Return all numbers in the text format of Prometheus."""
        return generate_latest(self._registry)

    def _follow(self, name: str, about: str, value: object) -> None:
        Gauge(name, about, registry=self._registry).set_function(value)  # type: ignore[arg-type]
