"""The jars of what only tests start: Pulsar's proxy, clients of any release, S3 and HDFS for Spark."""

from __future__ import annotations

from pathlib import Path

from deploy.local.jars import ALONE, POM, dependency, ensure, newer_libraries

#: The only release of Pulsar's proxy whose artifact is published.
PROXY = "4.0.8"
_PROXY_LOG4J = "2.23.1"
#: By version, the libraries of Pulsar that it needs: some of its own release are not published.
_PROXY_LIBRARIES = {
    PROXY: (
        "bouncy-castle-bc",
        "pulsar-broker-common",
        "pulsar-client-admin-api",
        "pulsar-client-api",
        "pulsar-client-original",
        "pulsar-common",
        "pulsar-config-validation",
        "pulsar-metadata",
        "pulsar-websocket",
    ),
    "4.0.7": ("pulsar-client-messagecrypto-bc", "pulsar-docs-tools", "pulsar-opentelemetry"),
}
_PROXY_TABLE = "4.0.7"

#: Spark's own Hadoop, and what Spark lacks to read and write S3; the modules of Amazon's SDK in place of
#: the bundle that Hadoop names, which has thirty times their size.
HADOOP = "3.5.0"
_S3_JARS = (
    ("org.apache.hadoop", "hadoop-aws", HADOOP),
    ("org.apache.spark", "spark-hadoop-cloud_2.13", "4.1.1"),
    ("software.amazon.s3.analyticsaccelerator", "analyticsaccelerator-s3", "1.3.1"),
)
_S3_MODULES = ("s3", "s3-transfer-manager", "sts")
_S3_SDK = "2.35.4"
_JUNIT = "5.11.4"

_BARE = (
    "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"
)
_WITHOUT_SPARKS = (
    "<exclusions><exclusion><groupId>io.netty</groupId><artifactId>*</artifactId></exclusion>"
    "<exclusion><groupId>org.slf4j</groupId><artifactId>*</artifactId></exclusion>"
    "<exclusion><groupId>commons-codec</groupId><artifactId>*</artifactId></exclusion></exclusions>"
)


def proxy_jars(root: Path) -> Path:
    """Return the directory with the jars of Pulsar's proxy."""
    return ensure(root / f"pulsar-proxy-{PROXY}", _proxy_pom())


def s3_jars(root: Path) -> Path:
    """Return the directory with what Spark lacks to read and write S3."""
    jars = "".join(dependency(name, number, _BARE, group=group) for group, name, number in _S3_JARS)
    # Spark brings the others, newer.
    modules = "".join(
        dependency(name, _S3_SDK, _WITHOUT_SPARKS, group="software.amazon.awssdk")
        for name in _S3_MODULES
    )
    pom = POM.format(body=f"<dependencies>{jars}{modules}</dependencies>")
    return ensure(root / f"hadoop-s3-{HADOOP}", pom)


def hdfs_jars(root: Path) -> Path:
    """Return the directory with what HDFS needs beside the jars of Spark."""
    hdfs = dependency("hadoop-client-minicluster", HADOOP, _BARE, group="org.apache.hadoop")
    # A class that the mini-cluster loads names one of its.
    junit = dependency("junit-jupiter-api", _JUNIT, group="org.junit.jupiter")
    pom = POM.format(body=f"<dependencies>{hdfs}{junit}</dependencies>")
    return ensure(root / f"hadoop-hdfs-{HADOOP}", pom)


def client_jars(artifact: str, version: str, root: Path) -> Path:
    """Return the directory with the jars of a client library of some release."""
    managed = f"<dependencies>{newer_libraries(version)}</dependencies>"
    body = (
        f"<dependencyManagement>{managed}</dependencyManagement>\n"
        f"<dependencies>{dependency(artifact, version)}</dependencies>"
    )
    return ensure(root / f"{artifact}-{version}", POM.format(body=body))


def _proxy_pom() -> str:
    table = dependency("pulsar", _PROXY_TABLE, "<type>pom</type><scope>import</scope>")
    proxy = dependency("pulsar-proxy", PROXY, ALONE)
    libraries = "".join(
        dependency(artifact, version, ALONE)
        for version, artifacts in _PROXY_LIBRARIES.items()
        for artifact in artifacts
    )
    # The proxy's own pom leaves it to the image to bring one.
    log = dependency("log4j-slf4j2-impl", _PROXY_LOG4J, group="org.apache.logging.log4j")
    return POM.format(
        body=f"<dependencyManagement><dependencies>{table}</dependencies></dependencyManagement>\n"
        f"<dependencies>{proxy}{libraries}{log}</dependencies>"
    )
