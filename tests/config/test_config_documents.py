import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from phmrun.config import Source, config_source, load_yaml, resolve, to_yaml
from phmrun.config.sources import parse_mapping
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
        ("a: !!python/object:os.system x\n", 1, "could not determine a constructor"),
        ("a: *b\n", 1, "undefined alias"),
    ],
)
def test_mistakes_have_file_and_line(tmp_path, text, line, what):
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    with pytest.raises(PhmrunError, match=what) as caught:
        load_yaml(path)
    assert caught.value.where == f"{path}:{line}"
    assert caught.value.code == 2


def test_numbers_and_truth_values_are_keys_as_written():
    values, lines = parse_mapping("a: &x 1\nb: {0: c, true: 0x1, 1.50: *x, *x : d}\n", "x.yaml")
    assert values == {"a": 1, "b": {"0": "c", "true": 1, "1.50": 1, "1": "d"}}
    assert lines["b.1.50"] == 2


@pytest.mark.parametrize("text", ["- a\n- b\n", "word\n", "3\n"])
def test_only_mappings_are_configurations(text):
    with pytest.raises(PhmrunError, match="mapping"):
        parse_mapping(text, "x.yaml")


def test_missing_binary_and_empty_files(tmp_path):
    with pytest.raises(PhmrunError, match="cannot be read"):
        load_yaml(tmp_path / "none.yaml")
    (tmp_path / "binary.yaml").write_bytes(b"a: \xff\n")
    with pytest.raises(PhmrunError, match="UTF-8"):
        load_yaml(tmp_path / "binary.yaml")
    (tmp_path / "empty.yaml").write_text("# nothing\n")
    assert load_yaml(tmp_path / "empty.yaml") == {}


def test_deep_nesting_is_refused_in_words():
    with pytest.raises(PhmrunError, match="nested too deeply"):
        parse_mapping("a: " + "[" * 20_000, "x.yaml")


def test_line_numbers():
    text = "# head\na: 1\nb:\n  c:\n    d: 1\n  e: [1,\n    2]\nf: 2\n"
    assert parse_mapping(text, "x")[1] == {"a": 2, "b": 3, "b.c": 4, "b.c.d": 5, "b.e": 6, "f": 8}


def test_merge_keys_still_work():
    assert parse_mapping("a: &x {b: 1}\nc:\n  <<: *x\n  d: 2\n", "x")[0] == {"a": {"b": 1}, "c": {"b": 1, "d": 2}}


def test_comments_are_aligned_and_harmless(schema, options_of):
    config = resolve(schema, [], options_of).config
    text = to_yaml(config, {"seed": "here", "model.width": "there"})
    marked = [line for line in text.splitlines() if "  # " in line]
    assert [line.split("  # ")[1] for line in marked] == ["here", "there"]
    assert len({line.index("  # ") for line in marked}) == 1
    assert parse_mapping(text, "x")[0] == config.model_dump(mode="json")


@settings(deadline=None)
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


def test_other_yaml_readers_agree(schema, options_of):
    config = resolve(schema, [Source("x", {"data": {"name": "no"}, "layer": "phm"})], options_of).config
    assert yaml.safe_load(to_yaml(config)) == config.model_dump(mode="json")


@pytest.mark.parametrize("name", ["/dev/zero", "x" * 5000, "."])
def test_what_is_no_file_of_settings_is_refused_unread(name):
    with pytest.raises(PhmrunError):
        config_source(name)


def test_a_file_larger_than_any_configuration_is_refused_unread(tmp_path):
    path = tmp_path / "large.yaml"
    with path.open("wb") as handle:
        handle.truncate(1 << 40)  # a hole
    with pytest.raises(PhmrunError, match="too large"):
        load_yaml(path)


def test_a_comment_cannot_leave_its_line(schema, options_of):
    config = resolve(schema, [], options_of).config
    text = to_yaml(config, {"seed": "a file\nhacked: true\r\nx: \x1b[2J"})
    assert parse_mapping(text, "x")[0] == config.model_dump(mode="json")
