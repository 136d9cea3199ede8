"""The bound on the requests of one host: requests beyond it get 429, so that other hosts are not delayed.

Requests that read the sidecar's state are answered on the coordinator's loop; a script that asks without
a pause would delay rounds, and the requests of others. Each client address has a token bucket that saves
up at most two seconds. Buckets are kept for the `MAX_ADDRESSES` addresses that asked last; a forgotten
address begins with a full one.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable

from starlette.types import ASGIApp, Receive, Scope, Send

from admin_api.errors import reason_response
from admin_api.requests.refusals import RefusalCounts
from coordinator.core.limiting.token_bucket import TokenBucket

MAX_ADDRESSES = 1_024
_SAVED_UP_S = 2


class RequestRate:
    """Refuses requests beyond a rate.

    Args:
        app: answers the other requests.
        requests_per_second: the rate of one address.
        refusals: counts the requests beyond it.
        now_ns: monotonic time.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        requests_per_second: int,
        refusals: RefusalCounts,
        now_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._app = app
        self._rate = requests_per_second
        self._refusals = refusals
        self._now_ns = now_ns
        self._buckets: OrderedDict[str, TokenBucket] = OrderedDict()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on or refuse."""
        if scope["type"] == "http" and not self._admits(scope):
            self._refusals.add("rate", _address(scope))
            reason = f"More than {self._rate} requests per second from your address; try again"
            refusal = reason_response(429, reason, {"Retry-After": "1"})
            await refusal(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _admits(self, scope: Scope) -> bool:
        now_ns = self._now_ns()
        address = _address(scope)
        bucket = self._buckets.get(address)
        if bucket is None:
            capacity = self._rate * _SAVED_UP_S
            bucket = TokenBucket(
                rate=self._rate, capacity=capacity, initial=capacity, now_ns=now_ns
            )
            self._buckets[address] = bucket
            if len(self._buckets) > MAX_ADDRESSES:
                self._buckets.popitem(last=False)
        self._buckets.move_to_end(address)
        if not bucket.contains_tokens(now_ns):
            return False
        bucket.consume(1, now_ns)
        return True


def _address(scope: Scope) -> str:
    return str(scope["client"][0]) if scope.get("client") else ""
