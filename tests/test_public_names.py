"""What `import ggtts` offers: every name is there, and what is listed is what is offered."""

from __future__ import annotations

import pytest

import ggtts


@pytest.mark.parametrize("name", ggtts.__all__)
def test_every_name_is_there(name: str) -> None:
    found = getattr(ggtts, name)
    assert found.__name__ == name
    assert found.__doc__
    assert name in dir(ggtts)


def test_the_list_is_complete() -> None:
    assert sorted(ggtts._HOMES) == sorted(ggtts.__all__)


def test_other_names_are_attribute_errors() -> None:
    with pytest.raises(AttributeError, match="no attribute 'speak'"):
        _ = ggtts.speak
