"""CoNLL-U: files come back byte for byte, trees are read right, and every fault is placed."""

import gzip
import os
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny_treebank import trees_of

from phmrun.errors import ExitCode, PhmrunError
from phmrun.text import conllu

SAMPLE = (
    "# sent_id=1\n"
    "#text =  au  parc \t odd\n"
    "1-2\tau\t_\t_\t_\t_\t_\t_\t_\tSpaceAfter=No\n"
    "1\tà\tà\tADP\tP\tB=1|A=2|A=2\t3\tcase\t_\t_\n"
    "2\tle\tle\tDET\t\tDefinite=Def\t3\tdet:x\t_\t\n"
    "2.1\tgrand\tgrand\tADJ\t_\t_\t_\t_\t3:amod\t_\n"
    "3\tparc vert\tparc\tNOUN\tN\t_\t0\troot\t0:root\tLast|Note=a b\n"
    "\n"
)
WORD = st.text(st.characters(exclude_characters="\n\r\t\0\ufeff", exclude_categories=["Cs"]), min_size=1, max_size=6)


def tree(size: int, seed: int) -> list[int]:
    """Heads of a random tree: words are attached, in a random order, to the root or one attached before."""
    chance = random.Random(seed)
    order = chance.sample(range(1, size + 1), size)
    heads = [0] * size
    for index, word in enumerate(order[1:], 1):
        heads[word - 1] = order[chance.randrange(index)]
    return heads


@st.composite
def blocks(draw):
    """A sentence as text, with its words, heads and labels."""
    forms = draw(st.lists(WORD, min_size=1, max_size=5))
    labels = [draw(WORD.filter(lambda text: text != "_")) for _ in forms]
    heads = tree(len(forms), draw(st.integers(0, 1000)))
    end = draw(st.sampled_from(["\n", "\r\n"]))
    lines = [f"#{draw(WORD)}" for _ in range(draw(st.integers(0, 2)))]
    if draw(st.booleans()):
        lines.append("0.1" + "\t_" * 9)
    covered = 0
    for number, (form, head, label) in enumerate(zip(forms, heads, labels, strict=True), 1):
        if number > covered and draw(st.booleans()):
            covered = draw(st.integers(number, len(forms)))
            lines.append(f"{number}-{covered}\tx" + "\t_" * 8)
        rest = draw(st.sampled_from(["_\t_\t_\t_", "\t\t\t", "a b\tX\tY Z\tF=1|F=1"]))
        lines.append(f"{number}\t{form}\t{rest}\t{head}\t{label}\t_\t{draw(st.sampled_from(['_', '', 'A=1|B']))}")
        lines += [f"{number}.{index}" + "\t_" * 9 for index in range(1, draw(st.integers(1, 3)))]
    text = "".join(line + end for line in [*lines, *[""] * draw(st.integers(1, 3))])
    return text, tuple(forms), tuple(heads), tuple(labels)


@given(parts=st.lists(blocks(), min_size=1, max_size=4), cut=st.sampled_from(["", "\n", "\n\n"]), packed=st.booleans())
def test_whatever_is_well_formed_comes_back_byte_for_byte(tmp_path_factory, parts, cut, packed):
    content = "".join(text for text, *_ in parts).removesuffix(cut).encode()
    path = tmp_path_factory.mktemp("treebank") / "file"
    path.write_bytes(gzip.compress(content) if packed else content)
    sentences = conllu.load(path)
    assert conllu.dumps(sentences).encode() == content
    assert [(sentence.forms, sentence.heads, sentence.deprels) for sentence in sentences] == [
        tuple(part[1:]) for part in parts
    ]
    same = [sentence.with_parse(sentence.heads, sentence.deprels) for sentence in sentences]
    assert conllu.dumps(same).encode() == content


def test_words_are_syntactic_words():
    (sentence,) = trees_of(SAMPLE)
    assert len(sentence) == 3
    assert sentence.forms == ("à", "le", "parc vert")
    assert sentence.upos == ("ADP", "DET", "NOUN")
    assert sentence.xpos == ("P", "", "N")
    assert sentence.heads == (3, 3, 0)
    assert sentence.deprels == ("case", "det:x", "root")
    assert sentence.text == SAMPLE


def test_a_parse_replaces_two_columns_of_the_words_alone():
    (sentence,) = trees_of(SAMPLE.replace("\n", "\r\n"))
    parsed = sentence.with_parse([0, 1, 2], ["root", "a", "b:c"])
    expected = SAMPLE.replace("\t3\tcase\t", "\t0\troot\t").replace("\t3\tdet:x\t", "\t1\ta\t")
    expected = expected.replace("\t0\troot\t0:root", "\t2\tb:c\t0:root").replace("\n", "\r\n")
    assert parsed.text == expected
    assert trees_of(parsed.text)[0] == parsed
    with pytest.raises(ValueError, match="zip"):
        sentence.with_parse([0], ["root"])


def test_a_stream_gives_each_sentence_at_its_blank_line():
    lines = iter([*SAMPLE.splitlines(keepends=True), "\n", *SAMPLE.splitlines(keepends=True)])
    read = conllu.stream(lines, name="-")
    assert next(read).forms == ("à", "le", "parc vert")
    assert next(lines) == "\n"  # not a line more has been taken
    assert next(read).text == SAMPLE


@pytest.mark.parametrize(
    ("old", "new", "line", "what"),
    [
        ("\t3\tcase\t_\t_\n", "\t3\tcase\t_\n", 4, "9 columns"),
        ("\t3\tcase\t_\t_\n", "\t3\tcase\t_\t_\t_\n", 4, "11 columns"),
        ("1\tà\tà", "1 à à", 4, "8 columns"),
        ("\t3\tcase", "\t4\tcase", 4, "the head is '4'"),
        ("\t3\tcase", f"\t{'9' * 5000}\tcase", 4, "not a number from 0"),
        ("\t3\tcase", "\t-1\tcase", 4, "not a number from 0"),
        ("\t3\tcase", "\t1.1\tcase", 4, "not a number from 0"),
        ("\t3\tcase", "\t٣\tcase", 4, "not a number from 0"),
        ("\t3\tcase", "\t_\tcase", 4, "the head is '_'"),
        ("\t3\tcase", "\t3\t_", 4, "no label"),
        ("\t3\tcase", "\t1\tcase", 4, "cycle through word 1"),
        ("\t0\troot\t", "\t2\troot\t", 7, "cycle through word 3"),
        ("\t3\tcase", "\t0\tcase", 7, "2 roots, words 1, 3"),
        ("2\tle", "3\tle", 5, "id is '3'"),
        ("2\tle", "02\tle", 5, "id is '02'"),
        ("2\tle", "x\tle", 5, "id is 'x'"),
        ("2\tle", "# late\n2\tle", 5, "comment"),
        ("2\tle\t", "2\t\t", 5, "no form"),
        ("#text", " #text", 2, "columns"),
        ("# sent_id=1\n", "# alone\n\n# sent_id=1\n", 1, "no word"),
    ],
)
def test_a_fault_is_placed(old, new, line, what):
    broken = SAMPLE.replace(old, new, 1)
    shift = SAMPLE.count("\n") + 1
    with pytest.raises(PhmrunError) as caught:
        trees_of(SAMPLE + "\n" + broken, name="x.conllu")
    assert caught.value.where == f"x.conllu:{line + shift}"
    assert what in caught.value.what
    assert caught.value.code is ExitCode.DATA


@pytest.mark.parametrize(
    ("content", "line", "what"),
    [
        (SAMPLE.encode() + SAMPLE.encode("latin-1"), ":12", "0xe0"),
        (SAMPLE.encode("utf-16"), ":1", "0xff"),
        (gzip.compress(SAMPLE.encode() * 50, mtime=0)[:-9], "", "damaged"),
        (gzip.compress(SAMPLE.encode(), mtime=0)[:10] + b"\xff" * 40, ":1", "damaged"),
        (b"", "", "no sentence"),
        (b"\n\r\n", "", "no sentence"),
        (b"# only a comment\n", ":1", "no word"),
    ],
)
def test_a_damaged_file_is_a_data_error(tmp_path, content, line, what):
    path = tmp_path / "x.conllu"
    path.write_bytes(content)
    with pytest.raises(PhmrunError) as caught:
        conllu.load(path)
    assert str(caught.value.where).startswith(f"{path}{line}")
    assert what in caught.value.what
    assert caught.value.code is ExitCode.DATA


@given(size=st.integers(1, 12), seed=st.integers(0, 10_000), data=st.data())
def test_a_cycle_is_found_wherever_it_is(size, seed, data):
    heads = tree(size, seed)
    start = data.draw(st.integers(1, size))
    below = [word for word in range(1, size + 1) if start in _ancestors(heads, word)]
    heads[start - 1] = data.draw(st.sampled_from(below))
    lines = [f"{word}\tx\t_\t_\t_\t_\t{head}\tl\t_\t_\n" for word, head in enumerate(heads, 1)]
    with pytest.raises(PhmrunError, match="cycle"):
        trees_of("".join(lines))


def _ancestors(heads: list[int], word: int) -> list[int]:
    """A word, its head, the head's head …"""
    chain = []
    while word:
        chain.append(word)
        word = heads[word - 1]
    return chain


@pytest.mark.long
def test_validation_sets_of_treebanks_come_back_byte_for_byte():
    folder = Path(os.environ.get("PHMRUN_DATA", "none")) / "ud"
    files = sorted(folder.glob("**/*-dev.conllu"))
    if not files:
        pytest.skip("no treebanks under PHMRUN_DATA")
    for path in files:
        sentences = conllu.load(path)
        copies = [sentence.with_parse(sentence.heads, sentence.deprels) for sentence in sentences]
        assert conllu.dumps(copies).encode() == path.read_bytes(), path
