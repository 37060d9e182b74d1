"""Packages that Lightning imports without need are hidden, unless the environment forbids it."""

import pytest
from lightning_utilities.core import imports

from phmrun.engine.lightning import _unused_not_found


@pytest.mark.parametrize(("value", "hidden"), [(None, True), ("1", True), ("0", False)])
def test_unused_packages_are_hidden_only_in_the_block_and_unless_forbidden(value, hidden, monkeypatch):
    monkeypatch.delenv("PHMRUN_HIDE_UNUSED", raising=False)
    if value is not None:
        monkeypatch.setenv("PHMRUN_HIDE_UNUSED", value)
    before = imports.package_available, imports._version
    with _unused_not_found():
        assert imports.package_available("pytest")
        assert imports.package_available("matplotlib") is not hidden
    assert (imports.package_available, imports._version) == before
