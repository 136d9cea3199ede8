"""View agreement: whether all brokers go by the same, and who differs from this one since when.

Equal views give equal splits; so a sidecar that goes by another definition, counts other members or
has missed what somebody wants shares out another limit than everybody else, and nobody would notice.
Therefore every report carries three digests of 32 bits of what its sender goes by (``ViewDigest``):

* *definitions*: every group with its configuration version;
* *members*: every broker with its incarnation, as this sender sees the membership;
* *usage*: the rows that this sender has told so far and that are still standing: its part of
  everybody's demand view.

*What equal means.* At a busy moment no two sidecars have taken the same reports: some are on their way.
Were a digest of everybody's demand in the report, a healthy cluster would never agree. So demand is
compared sender by sender: the digest of what the sender has told travels *with* what it tells, and the
receiver computes the same of the rows that it keeps for this sender. They are equal right after each
report, however busy the cluster is, or something was missed; and when every receiver agrees with every
sender, all demand views are the same. Definitions and members change seldom and reach all within
milliseconds, while a report may have been made before that: they are compared as each report arrives,
and a difference counts only when it has lasted for more than ``disagreement_rounds``.

A digest is the sum, modulo 2^32, of the entries' hashes (BLAKE2b, equal on every machine): whatever
order they came in, one entry more or less costs one addition. Two views that differ have equal digests
by chance once in four thousand million. It is a means to notice faults, not to stop forgers. Rows, of
which there are very many, are hashed by CRC-32 (columns.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from hashlib import blake2b

from coordinator.core.model import Member, ResourceGroup, ViewDigest, redefined
from coordinator.core.settings import CoreSettings

_BYTES = 4
MODULUS = 1 << 8 * _BYTES


class Matter(Enum):
    """What two views can differ in."""

    DEFINITIONS = "definitions"
    MEMBERS = "members"
    USAGE = "usage"


@dataclass(frozen=True, slots=True)
class Disagreement:
    """Another broker goes by something else than this one, for longer than a report takes."""

    peer: str
    matter: Matter
    since_ns: int


def digest_of(*values: object) -> int:
    """One entry's hash; the same on every machine for the same names and numbers."""
    text = "\x1f".join(map(str, values))
    return int.from_bytes(blake2b(text.encode(), digest_size=_BYTES).digest())


class Agreement:
    """Keeps this broker's digests up to date and compares those of the others with them."""

    def __init__(self, settings: CoreSettings) -> None:
        self._settings = settings
        self._definitions = 0
        self._members = 0
        #: The last digests of every peer that was heard; members only.
        self._said: dict[str, ViewDigest] = {}
        self._since: dict[tuple[str, Matter], int] = {}

    def set_groups(
        self, before: Mapping[str, ResourceGroup], after: Mapping[str, ResourceGroup]
    ) -> None:
        """The definitions changed."""
        for name in redefined(after, before):
            self._definitions = (self._definitions - _definition_digest(before[name])) % MODULUS
        for name in redefined(before, after):
            self._definitions = (self._definitions + _definition_digest(after[name])) % MODULUS

    def set_members(self, members: Mapping[str, Member]) -> None:
        """The membership changed; whoever is gone is not compared any more."""
        self._members = sum(digest_of(m.broker, m.incarnation) for m in members.values()) % MODULUS
        self._said = {peer: said for peer, said in self._said.items() if peer in members}
        self._since = {key: since for key, since in self._since.items() if key[0] in members}

    def digest(self, usage: int) -> ViewDigest:
        """What to report: this broker's views, and the digest of the rows that it has told."""
        return ViewDigest(self._definitions, self._members, usage)

    def heard(self, peer: str, said: ViewDigest, usage: int, now_ns: int) -> None:
        """A report of a member was taken; ``usage`` is the digest of the rows kept for its sender."""
        self._said[peer] = said
        own = self.digest(usage)
        if said == own and not self._since:
            return
        self._compare(peer, Matter.DEFINITIONS, now_ns, equal=said.definitions == own.definitions)
        self._compare(peer, Matter.MEMBERS, now_ns, equal=said.members == own.members)
        self._compare(peer, Matter.USAGE, now_ns, equal=said.usage == own.usage)

    def same_definitions(self, peer: str) -> bool:
        """Whether a peer has said that it goes by the definitions that this broker has now."""
        said = self._said.get(peer)
        return said is not None and said.definitions == self._definitions

    def same_members(self, peer: str) -> bool:
        """Whether a peer has said that it sees the membership that this broker sees now."""
        said = self._said.get(peer)
        return said is not None and said.members == self._members

    def disagreements(self, rounds_ns: Mapping[str, int], now_ns: int) -> list[Disagreement]:
        """Who differs in what for more than ``disagreement_rounds``, by peer.

        Args:
            rounds_ns: how long each peer's rounds are; the own round is the least that is taken.
            now_ns: the time.
        """
        lasting = []
        for (peer, matter), since_ns in sorted(
            self._since.items(), key=lambda item: (item[0][0], item[0][1].value)
        ):
            round_ns = max(self._settings.round_ns, rounds_ns.get(peer, 0))
            if now_ns - since_ns > self._settings.disagreement_rounds * round_ns:
                lasting.append(Disagreement(peer, matter, since_ns))
        return lasting

    def _compare(self, peer: str, matter: Matter, now_ns: int, *, equal: bool) -> None:
        if equal:
            self._since.pop((peer, matter), None)
        else:
            self._since.setdefault((peer, matter), now_ns)


def _definition_digest(group: ResourceGroup) -> int:
    return digest_of(group.name, group.configuration_version)
