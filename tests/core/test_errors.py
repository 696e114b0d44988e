"""What errors say."""

import pytest

from ggtts.core import errors
from ggtts.core.errors import GgttsError, UsageError, unknown_value


def test_exit_codes() -> None:
    kinds = [
        kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, GgttsError)
    ]
    assert len(kinds) == 7
    assert {kind.__name__ for kind in kinds if kind.exit_code == 2} == {"UsageError"}
    assert {kind.exit_code for kind in kinds} == {1, 2}


@pytest.mark.parametrize(
    ("value", "accepted", "message"),
    [
        (
            "Vivien",
            ["serena", "vivian"],
            "unknown voice 'Vivien', did you mean vivian? (accepted: serena, vivian)",
        ),
        ("x", ["serena", "vivian"], "unknown voice 'x' (accepted: serena, vivian)"),
        ("x", [], "unknown voice 'x': this model has none"),
        (
            "name7x",
            [f"name{n}" for n in range(99)],
            "unknown voice 'name7x', did you mean name7 or name97 or name87?",
        ),
    ],
)
def test_an_unknown_name_is_answered_with_near_ones(value: str, accepted: list[str], message: str) -> None:
    error = unknown_value("voice", value, accepted)
    assert isinstance(error, UsageError)
    assert str(error) == message
