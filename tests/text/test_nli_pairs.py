"""Labelled sentence pairs: each published format comes back whole, and every fault is placed."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from text_files import write

from phmrun.errors import ExitCode, PhmrunError
from phmrun.text.nli_pairs import LABELS, Pair, read_pairs, sentences_of

SENTENCE = st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]), min_size=1).map(
    lambda text: " ".join(text.replace("\ufeff", "").split())
)
PAIRS = st.lists(st.tuples(SENTENCE.filter(bool), SENTENCE.filter(bool), st.sampled_from([0, 1, 2])), min_size=1)
SNLI_HEADER = "gold_label\tsentence1_binary_parse\tsentence1\tsentence2\tpairID\tlabel1\tlabel2"


def record(premise="A dog runs.", hypothesis="An animal moves.", label="entailment", **more):
    return json.dumps({"gold_label": label, "sentence1": premise, "sentence2": hypothesis, **more})


def failure(path: Path, format: str) -> PhmrunError:
    with pytest.raises(PhmrunError) as caught:
        list(read_pairs(path, format))
    assert caught.value.code is ExitCode.DATA
    return caught.value


def written(pairs, format: str, style: str) -> str:
    """The file that the owners of the format would write."""
    names = {
        "snli": ("entailment", "neutral", "contradiction"),
        "scitail": ("entails", "neutral", "neutral"),
        "dnli": ("positive", "neutral", "negative"),
        "quora": ("0", "1", "1"),
        "tsv": LABELS["tsv"],
    }[format]
    rows = [(premise, hypothesis, names[index]) for premise, hypothesis, index in pairs]
    if style in ("lines", "array"):
        key = "label" if format == "dnli" else "gold_label"
        objects = [json.dumps({key: label, "sentence1": p, "sentence2": h}) for p, h, label in rows]
        return "\n".join(objects) + "\n" if style == "lines" else f"[{', '.join(objects)}]"
    lines = {
        "table": [SNLI_HEADER] + [f"{label}\t( x )\t{p}\t{h}\t1\tneutral" for p, h, label in rows],
        "columns": [f"{p}\t{h}\t{label}" for p, h, label in rows],
        "wang": [f"{label}\t{p}\t{h}\t17" for p, h, label in rows],
    }[style]
    return "\n".join(lines) + "\n"


STYLES = [
    ("snli", "lines"), ("snli", "table"), ("scitail", "columns"), ("dnli", "array"), ("dnli", "lines"),
    ("quora", "wang"), ("tsv", "columns"),
]  # fmt: skip


@pytest.mark.parametrize(("format", "style"), STYLES)
@settings(deadline=None)
@given(pairs=PAIRS, compress=st.booleans())
def test_every_format_comes_back(tmp_path_factory, format, style, pairs, compress):
    names = {"scitail": ("entailment", "neutral", "neutral"), "quora": ("different", "duplicate", "duplicate")}
    expected = [Pair(p, h, names.get(format, LABELS["snli"])[index]) for p, h, index in pairs]
    path = write(tmp_path_factory.mktemp("pairs") / "pairs", written(pairs, format, style), compress=compress)
    assert list(read_pairs(path, format)) == expected


def test_pairs_without_a_gold_label_are_dropped_and_counted(tmp_path):
    lines = [record(label="-"), record("one  two\tthree"), record(label="-", hypothesis="")]
    pairs = list(read_pairs(write(tmp_path / "pairs", "\n".join(lines)), "snli"))
    assert pairs == [None, Pair("one two three", "An animal moves.", "entailment"), None]
    table = f"{SNLI_HEADER}\n-\t( x )\ta\tb\t1\nneutral\t( x )\ta\tb\t1\n"
    pairs = list(read_pairs(write(tmp_path / "pairs", table), "snli"))
    assert [pair and pair.label for pair in pairs] == [None, "neutral"]


GOOD = record()
DNLI = '{"label": "positive", "sentence1": "a", "sentence2": "b"}'


@pytest.mark.parametrize(
    ("format", "content", "line", "message"),
    [
        ("snli", GOOD + "\n{not json", 2, "not JSON"),
        ("snli", "{" + '"a": [' * 100_000, 1, "not JSON"),
        ("snli", GOOD + "\n[1]", 2, "list"),
        ("snli", GOOD + '\n{"sentence1": "x", "gold_label": "neutral"}', 2, "no 'sentence2'"),
        ("snli", GOOD + '\n{"sentence1": NaN, "sentence2": "y", "gold_label": "neutral"}', 2, "float instead of text"),
        ("snli", GOOD + '\n{"sentence1": "x", "sentence2": "y", "gold_label": NaN}', 2, "no label nan"),
        ("snli", record(label="contradicts"), 1, "no label 'contradicts'"),
        ("snli", record(premise=" "), 1, "first sentence is empty"),
        ("snli", record(hypothesis="\t"), 1, "second sentence is empty"),
        ("snli", "gold_label\tsentence1\n", 1, "no column 'sentence2'"),
        ("snli", f"{SNLI_HEADER}\nneutral\t( x )\ta\n", 2, "3 columns"),
        ("snli", f"{SNLI_HEADER}\n" + "\t".join("neutral" for _ in range(8)), 2, "8 columns"),
        ("snli", SNLI_HEADER, None, "no labelled pair"),
        ("snli", "\n \n", None, "only empty lines"),
        ("scitail", "a\tb\tentails\na\tb\n", 2, "2 columns instead of 3"),
        ("scitail", "a\tb\tentails\n \n", 2, "the line is empty"),
        ("scitail", "a\tb\tcontradiction\n", 1, "no label"),
        ("dnli", f"[{DNLI}", 1, "a comma or the end"),
        ("dnli", f"[{DNLI},\n{{]", 2, "not JSON"),
        ("dnli", f"[{DNLI},\n{DNLI[:-2]}\\ud800\"}}]", 2, "not JSON"),
        ("dnli", f"[{DNLI}]\nmore", 1, "the end of the array"),
        ("dnli", "[]", None, "no labelled pair"),
        ("dnli", f"[{DNLI},\n7]", 2, "int"),
        ("quora", "1\ta\tb\t9\n1\ta\tb\n", 2, "3 columns instead of 4"),
    ],
)  # fmt: skip
def test_what_is_malformed_is_placed(tmp_path, format, content, line, message):
    path = write(tmp_path / "pairs", content)
    error = failure(path, format)
    assert message in str(error)
    assert error.where == (str(path) if line is None else f"{path}:{line}")


@settings(deadline=None)
@given(content=st.binary(max_size=200), format=st.sampled_from(sorted(LABELS)))
def test_noise_is_read_or_refused_but_never_a_bug(tmp_path_factory, content, format):
    path = write(tmp_path_factory.mktemp("noise") / "pairs", content)
    try:
        labels = {pair.label for pair in read_pairs(path, format) if pair}
    except PhmrunError as error:
        if error.code is not ExitCode.DATA or str(path) not in str(error.where):
            raise
    else:
        assert labels <= set(LABELS[format])


OWN = [("a b", "c", "yes"), ("d", "e f", "no")]


@pytest.mark.parametrize(
    "text",
    [
        "a b\tc\tyes\nd\te f\tno\n",
        "id\tlabel\thypothesis\tpremise\n1\tyes\tc\ta b\n2\tno\te f\td\n",
        "gold_label\tsentence1\tsentence2\nyes\ta b\tc\nno\td\te f\n",
        '{"premise": "a b", "hypothesis": "c", "label": "yes"}\n{"premise": "d", "hypothesis": "e f", "label": "no"}\n',
        '[{"premise": "a b", "hypothesis": "c", "label": "yes"}, {"label": "no", "premise": "d", "hypothesis": "e f"}]',
    ],
)
def test_own_files_in_every_form_and_labels_by_mapping(tmp_path, text):
    path = tmp_path / "own"
    path.write_text(f"\n{text}")
    assert [tuple(pair) for pair in read_pairs(path, "tsv", {"yes": "yes", "no": "no"})] == OWN
    mapped = read_pairs(path, "tsv", {"yes": "entailment", "no": "neutral"})
    assert [pair.label for pair in mapped] == ["entailment", "neutral"]
    with pytest.raises(PhmrunError, match="no label 'yes'") as caught:
        list(read_pairs(path, "tsv"))
    assert "data.labels" in caught.value.hint


def test_lines_to_label_are_json_objects_or_columns():
    for line in (
        '{"premise": "a b", "hypothesis": "c", "label": "neutral"}',
        ' {"sentence2": "c", "sentence1": "a  b"}',
        "a b\tc",
    ):
        assert sentences_of(line, "input:1") == ["a b", "c"]
    for line in ('{"premise": "a"}', '{"premise": "a", "hypothesis": 1}', '{"premise"'):
        with pytest.raises(PhmrunError) as caught:
            sentences_of(line, "input:3")
        assert (caught.value.code, caught.value.where) == (ExitCode.DATA, "input:3")
