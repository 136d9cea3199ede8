"""One broker's rows: whatever they are kept in, they are what was said last."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.core.invariants import InvariantBroken
from coordinator.core.model import MAX_COUNT, Dimension, GroupUsage, MonitoringClass, Usage
from coordinator.core.usage.columns import entries_in_columns, in_columns, narrow, usage_digest
from coordinator.core.usage.rows import UsageRow, UsageRows

PUBLISH = MonitoringClass.PUBLISH
SECOND_NS = 1_000_000_000

names = st.sampled_from("abcdef")
counts = st.integers(0, 2**63 - 1)
rates = st.none() | counts
usages = st.builds(
    Usage, counts, counts, st.integers(0, 1000), st.integers(0, 1000),
    rates, rates, rates, rates, st.integers(0, 3), st.integers(0, 2**32 - 1), counts,
)  # fmt: skip
said = st.lists(
    st.tuples(st.booleans(), st.dictionaries(names, usages, max_size=6)), min_size=1, max_size=8
)


@given(said)
def test_rows_are_what_was_said_last(story: list[tuple[bool, dict[str, Usage]]]) -> None:
    """The last report decides rows and digest, in columns or not, added later or not."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("coordinator.core.usage.rows._ROWS_LEAST", 2)
        rows, expected = UsageRows(PUBLISH), dict[str, Usage]()
        for complete, usage_of in story:
            if complete:
                rows.replace(
                    in_columns(PUBLISH, [(name, 1, of) for name, of in usage_of.items()]), SECOND_NS
                )
                expected = dict(usage_of)
            else:
                for name, usage in usage_of.items():
                    rows.put(name, usage, SECOND_NS)
                expected |= usage_of
    standing = {name: usage for name, usage in expected.items() if usage.participants}

    for name in "abcdef":
        row = UsageRow(standing[name], SECOND_NS) if name in standing else None
        assert rows.get(name) == row
    assert standing.keys() <= rows.among(expected.keys()) <= expected.keys()
    assert rows.digest == sum(usage_digest(name, PUBLISH, of) for name, of in standing.items())


@given(st.lists(st.integers(0, 2**64 - 1)))
def test_a_column_holds_what_was_put_in(values: list[int]) -> None:
    """Its numbers are as narrow as they can be; a column of zeros is empty."""
    column = narrow(values)

    assert list(column) == (values if any(values) else [])
    assert not values or column.itemsize <= max(1, 2 * (max(values).bit_length() // 8 + 1))


@pytest.mark.parametrize("versions", [(0, 0), (0, 3), (2, 7)])
def test_an_entry_keeps_its_configuration_version_in_columns(versions: tuple[int, int]) -> None:
    """Entries without versions too, whose column is empty."""
    usage = {PUBLISH: Usage(messages=1, participants=1)}
    entries = [GroupUsage(f"g{at}", version, usage) for at, version in enumerate(versions)]

    assert entries_in_columns(entries) == entries
    assert entries_in_columns(entries)[1:] == entries[1:]


def test_a_digest_that_is_not_that_of_the_rows_is_a_broken_invariant() -> None:
    """The message names the broker, the class and both digests."""
    rows = UsageRows(PUBLISH)
    rows.put("orders", Usage(messages=1, participants=1), SECOND_NS)
    rows.validate("b1")
    rows.digest += 1

    with pytest.raises(InvariantBroken, match=rf"\(broker b1, .*, kept {rows.digest}, rows \d+\)"):
        rows.validate("b1")


def test_rates_stay_when_rows_are_put_in_columns() -> None:
    """Counts that cover different times are brought to the same."""
    row = UsageRow(Usage(messages=300, bytes=30, participants=1), elapsed_ns=3 * SECOND_NS)

    assert row.over(SECOND_NS) == Usage(messages=100, bytes=10, participants=1)
    assert row.over(3 * SECOND_NS) is row.usage


def test_counts_that_are_brought_to_another_time_are_rounded_to_the_nearest() -> None:
    """The only message of a long round is one of a shorter round, too."""
    row = UsageRow(Usage(messages=1, participants=1), elapsed_ns=SECOND_NS * 21 // 20)

    assert row.over(SECOND_NS).messages == 1


def test_counts_that_no_sidecar_can_have_are_the_most_there_is() -> None:
    """2^62 messages in a nanosecond, of enough groups that they are put into columns."""
    rows = UsageRows(PUBLISH)
    impossible = Usage(messages=2**62, bytes=2**63 - 1, participants=1)
    for number in range(1_000):
        rows.put(f"g{number}", impossible, 1 + number % 2)

    row = rows.get("g7")
    assert row is not None
    assert row.rate_of(Dimension.PUBLISH_MESSAGES) == MAX_COUNT
    assert row.over(SECOND_NS).messages == MAX_COUNT
    assert UsageRow(impossible, 0).rate_of(Dimension.PUBLISH_MESSAGES) == 0
