"""The core's words: which groups a change of definitions concerns."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from coordinator.core.model import Rates, ResourceGroup, redefined

definitions = st.dictionaries(
    st.text("abcdef", min_size=1, max_size=2),
    st.builds(
        ResourceGroup,
        st.just("g"),
        st.builds(Rates, publish_messages=st.integers(1, 3)),
        configuration_version=st.integers(1, 3),
    ),
    max_size=6,
)


@given(definitions, definitions, st.sets(st.text("abcdef", min_size=1, max_size=2)))
def test_what_is_redefined_is_new_or_differs(
    before: dict[str, ResourceGroup], after: dict[str, ResourceGroup], kept: set[str]
) -> None:
    """Whether an unchanged group is the same object or an equal one makes no difference."""
    after |= {name: before[name] for name in kept & before.keys()}

    assert set(redefined(before, after)) == {
        name for name, group in after.items() if before.get(name) != group
    }


class _Compared(ResourceGroup):
    """A group that may not be compared."""

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        raise AssertionError("compared")


def test_a_group_that_is_the_same_object_is_not_compared() -> None:
    """A change of one of a thousand groups costs one comparison."""
    groups: dict[str, ResourceGroup] = {f"g{n}": _Compared(f"g{n}", Rates()) for n in range(10)}
    after = groups | {"new": ResourceGroup("new", Rates())}

    assert list(redefined(groups, after)) == ["new"]
