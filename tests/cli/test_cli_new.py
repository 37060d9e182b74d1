"""``phmrun new`` outside a checkout of phmrun."""

import pytest


@pytest.mark.parametrize("text", ["[tool.ruff]\n", "[project]\n", "project = 3\n", "no TOML ]["])
def test_another_projects_pyproject_is_left_alone(phmrun, tmp_path, monkeypatch, text):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text(text)
    result = phmrun("new", "structure", "mine-here")
    assert (result.code, result.out.split()) == (0, ["mine_here.py", "test_mine_here.py"])
    assert (tmp_path / "pyproject.toml").read_text() == text
