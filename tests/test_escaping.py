import csv
import io
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from phmrun.cli.formats import Format, formatted
from phmrun.escaping import fenced, latex, markdown, one_line, printable, shell_word, shortened, spreadsheet

HOSTILE = [
    "<script>alert(1)</script>", "![x](http://evil.example/x.png)", "[x](javascript:alert(1))", "<javascript:alert(1)>",
    "http://evil.example", "www.evil.example", "**bold** _slanted_ `code` ~~gone~~ &lt;b&gt;", "a | b", "a\n\n# b",
]  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE)
def test_markdown_shows_what_was_written(text):
    """Rendered by a Markdown reader of its own, the text comes back, and nothing but text."""
    parser = pytest.importorskip("markdown_it").MarkdownIt("gfm-like", {"linkify": False})
    (opening, inline, closing) = parser.parse(f"cell {markdown(text)}")
    assert (opening.type, closing.type) == ("paragraph_open", "paragraph_close")
    assert {token.type for token in inline.children} <= {"text", "text_special"}
    assert "".join(token.content for token in inline.children) == f"cell {' '.join(text.split())}"


def test_markdown_makes_no_address_of_one():
    assert markdown("see http://x.example and www.x.example") == "see http\\://x.example and www\\.x.example"
    assert markdown("by_scope 31.2 ± 0.4 (n=2)") == "by_scope 31.2 ± 0.4 (n=2)"


def test_a_fence_is_longer_than_those_within():
    text = fenced("a: 1\n```\n<script>\n````\n", "yaml")
    assert text.splitlines()[0] == "`````yaml"
    assert text.splitlines()[-1] == "`````"


def test_what_steers_a_terminal_is_shown():
    assert printable("\x1b[2J\x07\x9b1m a\u202eb\ud800") == "\\x1b[2J\\x07\\x9b1m a\\u202eb\\ud800"
    assert printable("grüße 😀\n\tx") == "grüße 😀\n\tx"
    assert one_line("a\r\nb\u2028c") == "a b c"


def test_latex_stays_in_its_line():
    assert latex("≈ not worse by δ ≤ 0.5") == r"$\approx$ not worse by $\delta$ $\leq$ 0.5"
    assert latex("a\n\\input{/etc/passwd}% x") == r"a \textbackslash{}input\{/etc/passwd\}\% x"


@pytest.mark.parametrize("text", ["=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "  =1", "\t=1", "\n=1"])
def test_a_formula_is_text_in_a_spreadsheet(text):
    (row,) = csv.reader(io.StringIO(formatted(("=a",), [(text,)], Format.CSV).split("\n", 1)[1]))
    assert row == [f"'{text}"]
    assert formatted(("=a",), [], Format.CSV) == "'=a\n"


def test_csv_has_no_terminal_control_sequences():
    assert formatted(("a\x1b[2J",), [("\x9b1m\x07",)], Format.CSV) == "a\\x1b[2J\n\\x9b1m\\x07\n"


@pytest.mark.parametrize("value", [-1, -2.5, "-2.5", "+3", "1e-3", "-inf", "–", "phm", None, True])
def test_numbers_and_words_stay_as_they_are(value):
    assert spreadsheet(value) == value


@settings(max_examples=30, deadline=None)
@given(words=st.lists(st.text(st.characters(blacklist_characters="\0", blacklist_categories=("Cs",))), max_size=4))
def test_bash_reads_words_back_from_one_line(words):
    line = " ".join(map(shell_word, words))
    assert "\n" not in line
    done = subprocess.run(["bash", "-c", f"printf '%s\\0' x {line}"], capture_output=True, check=True)
    assert done.stdout.decode().split("\0")[1:-1] == words


def test_names_that_are_no_text_are_words_too():
    done = subprocess.run(["bash", "-c", "printf %s " + shell_word("a\udcff\n") + "x"], capture_output=True, check=True)
    assert done.stdout == b"a\xff\nx"


def test_paths_of_the_user_are_shortened():
    places = {"$PHMRUN_DATA": Path("/home/ada/data"), "~": Path("/home/ada"), "/": Path("/")}
    text = "train: /home/ada/data/x.en, /home/ada/y, /home/adam/z, /srv/w"
    assert shortened(text, places) == "train: $PHMRUN_DATA/x.en, ~/y, /home/adam/z, /srv/w"
    siblings = "/home/ada/data-old, /mnt/home/ada, /home/ada.old/x"
    assert shortened(siblings, {**places, "~": Path("/srv")}) == siblings
    assert shortened("in /home/ada/data.", places) == "in $PHMRUN_DATA."


def test_a_spreadsheets_cell_steers_no_terminal():
    assert spreadsheet("a\x1b[2Jb") == "a\\x1b[2Jb"
