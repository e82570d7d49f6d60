"""Routing by prefix: requests that begin alike go to the replica that has computed that beginning."""

import hashlib
import json
from collections import OrderedDict
from collections.abc import Iterable

from ray.serve.request_router import (
    PendingRequest,
    ReplicaID,
    RequestRouter,
    RunningReplica,
)

# Characters of a block, about two blocks of the KV cache, and the most blocks of a request that are compared.
BLOCK = 256
MOST_BLOCKS = 64
# Beginnings that are remembered. Each is a few dozen bytes.
REMEMBERED = 100_000


def text_of(body: bytes) -> str:
    """The text that a request begins with, as far as routing needs it: of any of the APIs, and whatever its fields are."""
    try:
        request = json.loads(body)
    except ValueError:
        return ""
    if not isinstance(request, dict):
        return ""
    # In the order in which templates write them.
    parts = [request.get(name) for name in ("model", "tools", "system", "instructions")]
    parts += [request.get(name) for name in ("messages", "prompt", "input")]
    return "\n".join(json.dumps(part, sort_keys=True) for part in parts if part)


def blocks(text: str) -> list[str]:
    """A hash for each beginning of a text that is a whole number of blocks. Texts shorter than one block have none."""
    hashes, whole = [], hashlib.blake2b(digest_size=12)
    for start in range(0, min(len(text), MOST_BLOCKS * BLOCK) - BLOCK + 1, BLOCK):
        whole.update(text[start : start + BLOCK].encode(errors="replace"))
        hashes.append(whole.hexdigest())
    return hashes


class Owners:
    """Which replica has computed which beginning, the latest ones."""

    def __init__(self, most: int = REMEMBERED):
        self._most = most
        self._owners: OrderedDict[str, object] = OrderedDict()

    def find(self, hashes: Iterable[str], replicas: Iterable[object]) -> object | None:
        """The replica, of these, with the longest of these beginnings."""
        known = set(replicas)
        for found in reversed(list(hashes)):
            owner = self._owners.get(found)
            if owner in known:
                return owner
        return None

    def note(self, hashes: Iterable[str], replica: object) -> None:
        for found in hashes:
            self._owners[found] = replica
            self._owners.move_to_end(found)
        while len(self._owners) > self._most:
            self._owners.popitem(last=False)


class PrefixRouter(RequestRouter):
    """Prefers the replica with the longest beginning of a request, as long as it takes more requests. Others go by queue length.

    A replica takes `max_ongoing_requests`, which is what runs in one step: so a beginning that everybody shares does not make
    everybody wait for one replica.
    """

    # Seconds in which a replica says how many requests it has. A text takes longer than Serve's default of 0.1, and so may a busy
    # processor; one whose process has ended is noticed at once.
    queue_len_response_deadline_s = 2.0

    def initialize_state(self, **_: object) -> None:
        self._owners = Owners()

    async def choose_replicas(
        self,
        candidate_replicas: list[RunningReplica],
        pending_request: PendingRequest | None = None,
    ) -> list[list[RunningReplica]]:
        hashes = pending_request.kwargs.get("beginnings", []) if pending_request else []
        by_id = {replica.replica_id: replica for replica in candidate_replicas}
        owner = self._owners.find(hashes, by_id)
        others = [replica for name, replica in by_id.items() if name != owner]
        return [[by_id[owner]], others] if owner is not None else [others]

    def on_request_routed(
        self, pending_request: PendingRequest, replica_id: ReplicaID, result: object
    ) -> None:
        self._owners.note(pending_request.kwargs.get("beginnings", []), replica_id)
