"""Metrics of a policy server, in the text format of Prometheus."""

from __future__ import annotations

import math
import re
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator

from rookery.serving.batcher import Counts

CONTENT_TYPE = b"text/plain; version=0.0.4; charset=utf-8"

SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, math.inf)
"""Upper limits of the buckets of the latency histogram, in seconds."""


class RequestMetrics:
    """Counters of requests over HTTP, by route and status, and their latency."""

    def __init__(self) -> None:
        self._started = time.monotonic()
        self._requests: Counter[tuple[str, int]] = Counter()
        self._buckets: dict[str, list[int]] = {}
        self._seconds: dict[str, float] = {}

    def count(self, route: str, status: int, seconds: float) -> None:
        """Counts an answered request.

        Args:
            route: Route of the server, or ``other``.
            status: HTTP status of the answer.
            seconds: Time from the head of the request to its answer.
        """
        self._requests[route, status] += 1
        self._buckets.setdefault(route, [0] * len(SECONDS))[bisect_left(SECONDS, seconds)] += 1
        self._seconds[route] = self._seconds.get(route, 0.0) + seconds

    def text(self, version: str, batches: Counts, internal_errors: int) -> str:
        """Returns all metrics.

        Args:
            version: Name of the served checkpoint.
            batches: Counters of the batcher.
            internal_errors: Number of internal errors.
        """
        return "".join(f"{line}\n" for line in self._lines(version, batches, internal_errors))

    def _lines(self, version: str, batches: Counts, internal_errors: int) -> Iterator[str]:
        yield from _about("requests_total", "counter", "Requests over HTTP.")
        for (route, status), number in sorted(self._requests.items()):
            yield f'rookery_requests_total{{path="{route}",status="{status}"}} {number}'
        yield from _about("request_errors_total", "counter", "Requests over HTTP with a status from 400 on.")
        failed = sum(number for (_, status), number in self._requests.items() if status >= 400)
        yield f"rookery_request_errors_total {failed}"
        yield from _about("internal_errors_total", "counter", "Errors of the server and of networks.")
        yield f"rookery_internal_errors_total {internal_errors}"
        yield from _about("request_seconds", "histogram", "Seconds from the head of a request to its answer.")
        for route, buckets in sorted(self._buckets.items()):
            total = 0
            for limit, number in zip(SECONDS, buckets, strict=True):
                total += number
                shown = "+Inf" if math.isinf(limit) else f"{limit:g}"
                yield f'rookery_request_seconds_bucket{{path="{route}",le="{shown}"}} {total}'
            yield f'rookery_request_seconds_sum{{path="{route}"}} {self._seconds[route]:.6f}'
            yield f'rookery_request_seconds_count{{path="{route}"}} {total}'
        yield from _about("batch_size", "summary", "Observations in a forward pass, of HTTP and the socket.")
        yield f"rookery_batch_size_sum {batches.rows}"
        yield f"rookery_batch_size_count {batches.batches}"
        yield from _about("batch_size_largest", "gauge", "Observations in the largest forward pass.")
        yield f"rookery_batch_size_largest {batches.largest}"
        if found := re.match(r"\d+", version):
            yield from _about("checkpoint", "gauge", "Number of the served checkpoint.")
            yield f"rookery_checkpoint {int(found[0])}"
        yield from _about("uptime_seconds", "gauge", "Seconds since the start of the server.")
        yield f"rookery_uptime_seconds {time.monotonic() - self._started:.3f}"


def _about(name: str, kind: str, text: str) -> Iterator[str]:
    yield f"# HELP rookery_{name} {text}"
    yield f"# TYPE rookery_{name} {kind}"
