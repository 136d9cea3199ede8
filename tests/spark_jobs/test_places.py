"""A place is a directory or a URL, as the recorder or as Hadoop spells it; anything else is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_jobs.places import LENGTH_MAX, place_of
from spark_jobs.refusals import RefusedInput
from spark_jobs.stores import EXCLUDED, PACKAGES

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("recorded", "recorded"),
        ("/var/lib/recorded", "/var/lib/recorded"),
        ("file:/var/lib/recorded", "/var/lib/recorded"),
        ("file:///var/lib/a place", "/var/lib/a place"),
        ("file:///var/lib/a%20place", "/var/lib/a place"),
        ("/var/lib/a%20place", "/var/lib/a%20place"),
        ("s3://bucket/a/b", "s3a://bucket/a/b"),
        ("s3a://bucket/a/b/", "s3a://bucket/a/b"),
        ("s3://bucket/a%20b/date=1", "s3a://bucket/a b/date=1"),
        ("hdfs://host:8020/a", "hdfs://host:8020/a"),
        ("hdfs:///a", "hdfs:///a"),
        ("fsspec+webhdfs://host:9870/a", "webhdfs://host:9870/a"),
        ("fsspec+webhdfs://host:9870/a%20b", "webhdfs://host:9870/a%20b"),
        ("gs://bucket/a", "gs://bucket/a"),
    ],
)
def test_a_place_is_known_by_either_spelling(text: str, url: str) -> None:
    """The URL is the one by which Hadoop knows it."""
    assert str(place_of(text)) == url


def test_what_is_below_a_place_has_its_options() -> None:
    """They say where the store is."""
    place = place_of("s3://b/x?endpoint_override=127.0.0.1:9000&scheme=http") / "y"

    assert str(place) == "s3a://b/x/y"
    assert place.options == {"endpoint_override": "127.0.0.1:9000", "scheme": "http"}


def test_spark_is_told_that_a_path_is_of_this_host(tmp_path: Path) -> None:
    """Its own default may be HDFS."""
    assert place_of(tmp_path).for_spark == f"file://{tmp_path}"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "1 to"),
        ("x" * (LENGTH_MAX + 1), "1 to"),
        ("a\nb", "control character"),
        ("file:///a%0ab", "control character"),
        (
            "/var/rec[1]",
            r"file:///var/rec\[1\]: Spark takes \[ for a pattern; name a place without it",
        ),
        ("hdfs://host/rec*", r"Spark takes \* for a pattern"),
        ("s3://bucket/a%3Fb", r"Spark takes \? for a pattern"),
        ("file://host/x", "no host"),
        ("file:x", "absolute path"),
        ("s3:///x", "not a URL as in"),
        ("s3://key:secret@b/x", "credentials do not belong into a URL"),
        ("hdfs://user:secret@host/x", "credentials do not belong into a URL"),
        ("s3://b/../x", r"\.\. has no meaning"),
        ("s3://b/%2e%2e/x", r"\.\. has no meaning"),
        ("s3://b/x?anonymous=true", "option anonymous of the URL is not known"),
        ("s3://b/x?scheme=ftp", "scheme is http or https"),
        ("hdfs://h/x?user=a", "option user of the URL is not known"),
        ("hdfs://h:port/x", "not a URL"),
        ("s3://b/x#y", "not a URL as in"),
        ("1://b/x", "not a URL"),
    ],
)
def test_what_names_no_place_is_refused(text: str, reason: str) -> None:
    """The message says why, and shows no secret."""
    with pytest.raises(RefusedInput, match=reason) as caught:
        place_of(text)
    assert "secret" not in str(caught.value)


def test_the_page_names_the_packages_that_a_failure_names() -> None:
    """A reader copies them from either."""
    page = (ROOT / "docs/reports.md").read_text(encoding="utf-8")

    assert f"PACKAGES={PACKAGES}\nEXCLUDED={EXCLUDED}\n" in page
