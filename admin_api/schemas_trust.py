"""The JSON of a group's certificates, with their assumptions and parts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Self

from pydantic import Field

from admin_api.schemas import CamelModel
from coordinator.core.certificate.statement import Certificate, Holder
from coordinator.native.engine.views import NativeState


class HolderBody(CamelModel):
    """The most that one broker's local limit can be."""

    broker: str
    most: int = Field(description="per second")
    basis: str = Field(description="what is known of it")

    @classmethod
    def of(cls, holder: Holder) -> Self:
        """Write one broker's part."""
        return cls(
            broker=holder.broker,
            most=holder.most,
            basis=holder.basis.value,
        )


class CertificateBody(CamelModel):
    """The most that the local limits of one dimension can add up to now."""

    dimension: str
    limit: int = Field(description="for the cluster, per second")
    most: int | None = Field(description="per second; null = nothing can be said")
    newcomer: int = Field(description="on top, by each broker not seen here yet, per second")
    burst: int = Field(description="on top, once: what the buckets may have saved up")
    holders: list[HolderBody] = Field(description="what it is made of; empty under strict")
    sentence: str
    slack: str = Field(
        description="what the answering broker's own limiter adds; empty: a gate holds it"
    )

    @classmethod
    def of(cls, certificate: Certificate, slack: str) -> Self:
        """Write one certificate."""
        return cls(
            dimension=certificate.dimension.value,
            limit=certificate.limit,
            most=certificate.most,
            newcomer=certificate.newcomer,
            burst=certificate.burst,
            holders=[HolderBody.of(holder) for holder in certificate.holders],
            sentence=certificate.sentence(),
            slack=slack,
        )


class GroupCertificates(CamelModel):
    """A group with a certificate for each dimension that it limits."""

    group: str
    certificates: list[CertificateBody]

    @classmethod
    def of(
        cls, group: str, certificates: Iterable[Certificate], native: NativeState | None
    ) -> Self:
        """Write one group; without a native state a gate holds all limits."""
        return cls(
            group=group,
            certificates=[
                CertificateBody.of(each, native.slack(group, each.dimension) if native else "")
                for each in certificates
            ],
        )
