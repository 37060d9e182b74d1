import csv
import io
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from phmrun.escaping import markdown, one_line, printable, shell_word
from phmrun.results.render import csv_table

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


def test_what_steers_a_terminal_is_shown():
    assert printable("\x1b[2J\x07\x9b1m a\u202eb\ud800") == "\\x1b[2J\\x07\\x9b1m a\\u202eb\\ud800"
    assert printable("grüße 😀\n\tx") == "grüße 😀\n\tx"
    assert one_line("a\r\nb\u2028c") == "a b c"


@pytest.mark.parametrize("text", ["=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "  =1", "\t=1", "\n=1"])
def test_a_formula_is_text_in_a_spreadsheet(text):
    (row,) = csv.reader(io.StringIO(csv_table(("=a",), [(text,)]).split("\n", 1)[1]))
    assert row == [f"'{text}"]
    assert csv_table(("=a",), []) == "'=a\n"


@settings(max_examples=30, deadline=None)
@given(words=st.lists(st.text(st.characters(blacklist_characters="\0", blacklist_categories=("Cs",))), max_size=4))
def test_bash_reads_words_back_from_one_line(words):
    line = " ".join(map(shell_word, words))
    assert "\n" not in line
    done = subprocess.run(["bash", "-c", f"printf '%s\\0' x {line}"], capture_output=True, check=True)
    assert done.stdout.decode().split("\0")[1:-1] == words
