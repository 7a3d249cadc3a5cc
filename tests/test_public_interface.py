"""The public interface is written down, and old names keep working."""

from __future__ import annotations

import difflib
import inspect
import runpy
from pathlib import Path

import pytest

from rankwright.support.deprecation import renamed

ROOT = Path(__file__).parents[1]
TOOL = runpy.run_path(str(ROOT / "tools" / "public_interface.py"))


def test_public_names_and_signatures_are_those_of_the_file() -> None:
    recorded, found = TOOL["FILE"].read_text().splitlines(), TOOL["interface"]().splitlines()
    changes = [line for line in difflib.ndiff(recorded, found) if line[0] in "+-"]
    assert not changes, "\n".join(
        [
            "The public interface has changed. If users are meant to see this change, run "
            "`python tools/public_interface.py` and name the change in CHANGELOG.md:",
            *changes,
        ]
    )


class Parent:
    def inherited(self) -> None: ...


class Child(Parent):
    @classmethod
    def of(cls, name: str = "x") -> Child:
        return cls()

    @property
    def size(self) -> int:
        return 1

    def _private(self) -> None: ...


def test_members_are_methods_and_properties(monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in (Parent, Child):
        monkeypatch.setattr(kind, "__module__", "rankwright.test")
    own = ["of(cls, name: 'str' = 'x') -> 'Child'", "size: property"]
    assert TOOL["members"](Child, {Child, Parent}) == own
    assert TOOL["members"](Child, {Child}) == ["inherited(self) -> 'None'", *own]
    monkeypatch.setattr(Parent, "__module__", "another.library")
    assert TOOL["members"](Child, {Child}) == own


@renamed("old", "new", since="0.2", removed="0.4")
def call(new: int = 0) -> int:
    return new


def test_an_old_name_works_and_warns() -> None:
    assert call(new=1) == call(2) - 1 == 1
    with pytest.warns(FutureWarning, match=r"old= is called new= since version 0\.2; 0\.4 removes"):
        assert call(old=3) == 3
    with (
        pytest.warns(FutureWarning, match="old="),
        pytest.raises(TypeError, match="multiple values"),
    ):
        call(1, old=3)
    assert list(inspect.signature(call).parameters) == ["new"]
