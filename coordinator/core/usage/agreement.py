"""View agreement: whether all brokers use the same facts, and which differ from this one since when.

Equal views give equal splits. A sidecar that uses another definition, counts other members or has missed
a demand therefore shares out another limit than all others, and without a check that stays unseen. So
every report carries three digests of 32 bits (``ViewDigest``):

* *definitions*: every group with its configuration version;
* *members*: every broker with its incarnation, as this sender sees the membership;
* *usage*: the rows that this sender has reported so far and that are still valid: its part of the demand
  view of every broker.

*How views are compared.* At a busy moment no two sidecars have taken the same reports, as some are on
their way: with a digest of all demands in the report, a healthy cluster would never agree. Demand is
therefore compared sender by sender: the digest of a sender's rows travels *with* the rows, and the
receiver computes the same of the rows that it keeps for this sender. Right after each report they are
equal, however busy the cluster is, or a row was missed; if every receiver agrees with every sender, all
demand views are equal. Definitions and members change seldom and reach all within milliseconds, while a
report may have been made before that: they are compared as each report arrives, and a difference counts
only when it has lasted for more than ``disagreement_rounds``.

A digest is the sum, modulo 2^32, of the entries' hashes (BLAKE2b, equal on every machine), in any order;
one entry more or less costs one addition. Two views that differ have equal digests by chance once in four
thousand million. Digests find faults; they do not stop forgers. Rows, of which there are very many, are
hashed by CRC-32 (columns.py).
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
    """The facts in which two views can differ."""

    DEFINITIONS = "definitions"
    MEMBERS = "members"
    USAGE = "usage"


@dataclass(frozen=True, slots=True)
class Disagreement:
    """Another broker uses other facts than this one, for longer than a report takes."""

    peer: str
    matter: Matter
    since_ns: int


def digest_of(*values: object) -> int:
    """Return one entry's hash; the same on every machine for the same names and numbers."""
    text = "\x1f".join(map(str, values))
    return int.from_bytes(blake2b(text.encode(), digest_size=_BYTES).digest())


class Agreement:
    """Keep this broker's digests up to date and compare those of the others with them."""

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
        """Take over the definitions."""
        for name in redefined(after, before):
            self._definitions = (self._definitions - _definition_digest(before[name])) % MODULUS
        for name in redefined(before, after):
            self._definitions = (self._definitions + _definition_digest(after[name])) % MODULUS

    def set_members(self, members: Mapping[str, Member]) -> None:
        """Take over the membership; departed members are no longer compared."""
        self._members = sum(digest_of(m.broker, m.incarnation) for m in members.values()) % MODULUS
        self._said = {peer: said for peer, said in self._said.items() if peer in members}
        self._since = {key: since for key, since in self._since.items() if key[0] in members}

    def digest(self, usage: int) -> ViewDigest:
        """Return the digests to report: of this broker's views, and of the rows that it has reported."""
        return ViewDigest(self._definitions, self._members, usage)

    def heard(self, peer: str, said: ViewDigest, usage: int, now_ns: int) -> None:
        """Compare a member's report; ``usage`` is the digest of the rows kept for its sender."""
        self._said[peer] = said
        own = self.digest(usage)
        if said == own and not self._since:
            return
        self._compare(peer, Matter.DEFINITIONS, now_ns, equal=said.definitions == own.definitions)
        self._compare(peer, Matter.MEMBERS, now_ns, equal=said.members == own.members)
        self._compare(peer, Matter.USAGE, now_ns, equal=said.usage == own.usage)

    def same_definitions(self, peer: str) -> bool:
        """Return whether a peer has reported to use this broker's present definitions."""
        said = self._said.get(peer)
        return said is not None and said.definitions == self._definitions

    def same_members(self, peer: str) -> bool:
        """Return whether a peer has reported to see this broker's present membership."""
        said = self._said.get(peer)
        return said is not None and said.members == self._members

    def disagreements(self, rounds_ns: Mapping[str, int], now_ns: int) -> list[Disagreement]:
        """Return the peers that differ for more than ``disagreement_rounds``, and in which facts.

        Args:
            rounds_ns: the length of each peer's rounds; at least the own round is taken.
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
