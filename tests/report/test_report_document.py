"""A page as HTML that needs nothing else, and as Markdown."""

import re
from html.parser import HTMLParser

import pytest

from phmrun.report.document import Code, Document, Listing, Picture, Section, Text, to_html, to_markdown
from phmrun.results.render import Styled

SVG = '<?xml version="1.0"?>\n<svg xmlns="http://www.w3.org/2000/svg"><rect/></svg>\n'


class Tags(HTMLParser):
    """The tags of a page in their order, and what is not closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.sources: list[str] = []
        self.text = ""

    def handle_starttag(self, tag, attributes):
        self.sources += [value for name, value in attributes if name in ("src", "href")]
        if tag not in ("meta", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


@pytest.fixture
def page(tmp_path):
    (tmp_path / "curve.svg").write_text(SVG)
    rows = [("a < b", 1234, "31.20 ± 0.41*"), ("x|y", None, "–")]
    parts = [
        Listing(("name", "count", "score"), rows),
        Picture(tmp_path / "curve.svg", 'what "it" shows'),
        Code("a: <b>\n", "yaml", "Settings"),
        Code("phmrun sweep x.yaml"),
    ]
    return Document("A & B", [Text("Opening."), Text("small", note=True)], [Section("One", parts)])


def test_html_is_well_formed_and_needs_no_network(page):
    text = to_html(page)
    tags = Tags()
    tags.feed(text)
    assert tags.open == []
    assert [source.split(",")[0] for source in tags.sources] == ["data:image/svg+xml;base64"]
    assert not re.search(r"<(script|link|iframe)|@import|url\(", text)
    for item in ("A & B", "a < b", "1,234", "31.20 ± 0.41*", "a: <b>", 'what "it" shows', "phmrun sweep x.yaml"):
        assert item in tags.text
    assert '<td class="number">31.20 ± 0.41*</td>' in text
    assert "<details><summary>Settings</summary>" in text


def test_page_as_markdown_escapes_and_aligns(page):
    lines = to_markdown(page).splitlines()
    assert lines[0] == "# A & B"
    assert "| :--- | ---: | ---: |" in lines
    assert "| a \\< b | 1,234 | 31.20 ± 0.41* |" in lines
    assert "| x\\|y | – | – |" in lines
    assert '![what "it" shows](curve.svg)' in lines
    assert lines[lines.index("Settings:") + 2 :][:3] == ["```yaml", "a: <b>", "```"]


def test_styled_cells_have_an_emphasis_and_a_second_line():
    cells = [Styled("a < b", "1 MB"), Styled("[1, 2]", strong=True), Styled("0", muted=True), Styled("x")]
    document = Document("T", [Listing(("a", "b", "c", "d"), [cells])], [])
    row = to_markdown(document).splitlines()[-1]
    assert row == r"| a \< b<br><small>1 MB</small> | <strong>\[1, 2\]</strong> | <small>0</small> | x |"
    html = to_html(document)
    assert "<td>a &lt; b<br><small>1 MB</small></td><td><strong>[1, 2]</strong></td>" in html
    assert [str(cell) for cell in cells[:2]] == ["a < b; 1 MB", "[1, 2]"]


def test_what_counts_as_a_number(page):
    listing = Listing(("", ""), [("Python", "3.11.7"), ("delta", "(+0.50)"), ("n", "12"), ("run", "1 of 2")])
    text = to_html(Document("x", [listing], []))
    assert re.findall(r'class="number">([^<]*)<', text) == ["(+0.50)", "12"]


@pytest.mark.parametrize("write", [to_html, to_markdown])
def test_paths_do_not_tell_whose_home_they_are_in(write, monkeypatch, tmp_path):
    home, data = tmp_path / "jane", tmp_path / "corpora"
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("PHMRUN_DATA", str(data))
    parts = [
        Text(f"Not run: {home}/x.yaml"),
        Listing((f"{home}/a",), [(f"{data}/b",)]),
        Code(f"train: {data}/train.tsv\n", "yaml", f"The sweep, {home}/x.yaml"),
        Code(f"phmrun sweep {home}/x.yaml"),
    ]
    text = write(Document(f"{home}/title", parts, [Section(f"{home}/s", parts)])).replace("\\", "")
    assert str(tmp_path) not in text
    for item in ("~/title", "~/s", "Not run: ~/x.yaml", "~/a", "$PHMRUN_DATA/b", "train: $PHMRUN_DATA/train.tsv"):
        assert item in text
