"""Items of agreement: both published formats, the authors' division, and faults with their place."""

import csv
import io
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from text_files import write

from phmrun.errors import ExitCode, PhmrunError
from phmrun.text.agreement import LABELS, Item, read_agreement

WORDS = st.lists(
    st.text(st.characters(exclude_categories=["Cs", "Cc", "Zs", "Zl", "Zp"]), min_size=1).filter(
        lambda word: word.split() == [word] and "\ufeff" not in word
    ),
    min_size=1,
    max_size=6,
)
FIELDS = (
    *("sentence", "orig_sentence", "pos_sentence", "subj", "verb", "subj_pos", "has_rel", "has_nsubj", "verb_pos"),
    *("subj_index", "verb_index", "n_intervening", "last_intervening", "n_diff_intervening", "distance", "max_depth"),
    *("all_nouns", "nouns_up_to_verb"),
)


def failure(path: Path) -> PhmrunError:
    with pytest.raises(PhmrunError) as caught:
        list(read_agreement(path))
    assert caught.value.code is ExitCode.DATA
    return caught.value


def table(*rows: dict[str, object], fields=FIELDS) -> str:
    """File format of the authors' code."""
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, fields, restval="x", extrasaction="ignore", delimiter="\t", lineterminator="\r\n")
    writer.writeheader()
    writer.writerows(rows)
    return buffer.getvalue()


def dependency(**changes):
    row = {"sentence": "the keys to the cabinet are here", "verb_pos": "VBP", "verb_index": 6}
    return row | {"n_intervening": 1, "n_diff_intervening": 1} | changes


@settings(deadline=None)
@given(
    items=st.lists(st.tuples(st.sampled_from(LABELS), WORDS), min_size=1),
    compress=st.booleans(),
    end=st.sampled_from(["\n", "\r\n"]),
)
def test_the_simple_format_comes_back(tmp_path_factory, items, compress, end):
    content = "".join(f"{label}\t{' '.join(words)}{end}" for label, words in items)
    path = write(tmp_path_factory.mktemp("items") / "items", content, compress=compress)
    assert list(read_agreement(path)) == [Item(" ".join(words), label) for label, words in items]


@settings(deadline=None)
@given(
    rows=st.lists(
        st.tuples(st.sampled_from(LABELS), WORDS, WORDS, st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=9
    ),
    fields=st.permutations(FIELDS),
    compress=st.booleans(),
)
def test_the_full_table_comes_back(tmp_path_factory, rows, fields, compress):
    dependencies = [
        dependency(
            sentence=" ".join(before + after),
            verb_pos=label,
            verb_index=len(before) + 1,
            n_intervening=same + different,
            n_diff_intervening=different,
        )
        for label, before, after, same, different in rows
    ]
    if fields[0] == "verb_pos":
        fields = fields[::-1]
    path = write(tmp_path_factory.mktemp("items") / "items", table(*dependencies, fields=fields), compress=compress)
    assert list(read_agreement(path)) == [
        Item(" ".join(before), label, different, same == 0) for label, before, _, same, different in rows
    ]


@pytest.mark.parametrize(
    ("content", "line", "message"),
    [
        ("VBP\tthe keys\nVBD\tthe key", 2, "the label is 'VBD'"),
        ("VBP\tthe keys\nthe key", 2, "1 column instead of 2"),
        ("VBP\tthe keys\nVBZ\tthe\tkey", 2, "3 columns instead of 2"),
        ("VBP\tthe keys\n\n", 2, "the line is empty"),
        (table(dependency()) + "\n", 3, "the line is empty"),
        ("VBP\t \n", 1, "no word before the verb"),
        ("nan\tthe keys\n", 1, "nor a header"),
        ("sentence\tverb_pos\n", 1, "no verb_index"),
        ("\t".join(FIELDS), None, "no rows"),
        (table(dependency(), dependency(verb_pos="NN")), 3, "the label is 'NN'"),
        (table(dependency(verb_index="NaN")), 2, "'NaN'"),
        (table(dependency(verb_index=-1)), 2, "verb_index -1"),
        (table(dependency(verb_index="9" * 5000)), 2, "not a count"),
        (table(dependency(verb_index=0)), 2, "verb_index 0"),
        (table(dependency(verb_index=8)), 2, "7 words"),
        (table(dependency(verb_index=1)), 2, "no word before"),
        (table(dependency(n_diff_intervening=2)), 2, "n_diff_intervening 2"),
        (table(dependency()) + "a\tb\n", 3, "2 columns"),
        (table(dependency()) + '"never ending\t', 3, "1 column where"),
    ],
)
def test_what_is_malformed_is_placed(tmp_path, content, line, message):
    path = write(tmp_path / "items", content)
    error = failure(path)
    assert message in str(error)
    assert error.where == (str(path) if line is None else f"{path}:{line}")


@settings(deadline=None)
@given(content=st.binary(max_size=200))
def test_noise_is_read_or_refused_but_never_a_bug(tmp_path_factory, content):
    path = write(tmp_path_factory.mktemp("noise") / "items", content)
    try:
        labels = {item.label for item in read_agreement(path)}
    except PhmrunError as error:
        if error.code is not ExitCode.DATA:
            raise
    else:
        assert labels <= set(LABELS)
