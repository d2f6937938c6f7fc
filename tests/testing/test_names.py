"""The public names of the testing kit."""

from __future__ import annotations

import pytest

from loopguard_lg import testing


@pytest.mark.parametrize("name", testing.__all__)
def test_every_name_is_there(name: str) -> None:
    """What the kit lists can be imported from it."""
    assert getattr(testing, name).__name__ == name


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    """Loading names late does not change what Python says of a wrong one."""
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = testing.nothing
