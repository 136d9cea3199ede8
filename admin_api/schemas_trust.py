"""The JSON of what can be certified of a group, with the assumptions and what it is made of."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Self

from pydantic import Field

from admin_api.schemas import CamelModel
from coordinator.core.certificate import Certificate, Holder


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

    @classmethod
    def of(cls, certificate: Certificate) -> Self:
        """Write one certificate."""
        return cls(
            dimension=certificate.dimension.value,
            limit=certificate.limit,
            most=certificate.most,
            newcomer=certificate.newcomer,
            burst=certificate.burst,
            holders=[HolderBody.of(holder) for holder in certificate.holders],
            sentence=certificate.sentence(),
        )


class GroupCertificates(CamelModel):
    """A group with a certificate for each dimension that it limits."""

    group: str
    certificates: list[CertificateBody]

    @classmethod
    def of(cls, group: str, certificates: Iterable[Certificate]) -> Self:
        """Write one group."""
        return cls(group=group, certificates=[CertificateBody.of(each) for each in certificates])
