import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from phmrun.config import Source, config_source, resolve, to_yaml
from phmrun.config.sources import parse_mapping, read_source
from phmrun.errors import PhmrunError


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        ("a: 1\nb: [1\n", 3, "expected"),
        ("a: 1\nb: 2\na: 3\n", 3, "given twice, first in line 1"),
        ("a:\n  b: 1\n  b: 1\n", 3, "given twice"),
        ("a: 1\n\tb: 2\n", 2, "violates indentation"),
        ("a: 1\nnull: 2\n", 2, "must be text"),
        ("a: 1\n1: 2\n'1': 3\n", 3, "given twice"),
        ("a: 1\n[x]: 2\n", 2, "must be text"),
        ("a: !!python/object:os.system x\n", 1, "is not read"),
        ("a: *b\n", 1, "undefined alias"),
    ],
)
def test_mistakes_have_file_and_line(tmp_path, text, line, what):
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    with pytest.raises(PhmrunError, match=what) as caught:
        read_source(path, lines=False)
    assert caught.value.where == f"{path}:{line}"
    assert caught.value.code == 2


@settings(deadline=None, max_examples=30)
@given(
    name=st.text(min_size=1),
    clip=st.floats(min_value=0, allow_nan=False, allow_infinity=False),
    label=st.sampled_from(
        ["no", "1e-3", "1:30", "null", "~", "0x1f", "a: b", "#x", "é\n ü", " x", "010", "'", "[", "2"]
    ),
)
def test_what_is_written_is_read_back(schema, options_of, name, clip, label):
    values = {"data": {"name": name}, "training": {"clip": clip}, "logging": {"project": label}}
    config = resolve(schema, [Source("x", values)], options_of).config
    text = to_yaml(config)
    assert parse_mapping(text, "x")[0] == config.model_dump(mode="json")
    assert schema.model_validate(parse_mapping(text, "x")[0]).training == config.training


@pytest.mark.parametrize("name", ["/dev/zero", "x" * 5000, "configs/" + "x" * 300 + "/a.yaml", "."])
def test_what_is_no_file_of_settings_is_refused_unread(name):
    with pytest.raises(PhmrunError):
        config_source(name)
