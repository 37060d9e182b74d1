"""``phmrun new`` outside a checkout of phmrun."""

import pytest


@pytest.mark.parametrize("text", ["[tool.ruff]\n", "[project]\n", "project = 3\n", "no TOML ]["])
def test_another_projects_pyproject_is_left_alone(phmrun, tmp_path, monkeypatch, text):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text(text)
    result = phmrun("new", "structure", "mine-here")
    assert (result.code, result.out.split()) == (0, ["mine_here.py", "test_mine_here.py"])
    assert (tmp_path / "pyproject.toml").read_text() == text


@pytest.mark.parametrize("name", ["class", "none", "torch", "json", "tensor"])
def test_a_name_of_python_or_of_a_library_is_refused(phmrun, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    result = phmrun("new", "structure", name)
    assert result.code == 2
    assert "is a word of Python or of a library" in result.err
    assert not [*tmp_path.iterdir()]


def test_an_unknown_kind_is_refused_without_words_of_pydantic(phmrun):
    assert "Value error" not in phmrun("new", "loss", "mine").err
