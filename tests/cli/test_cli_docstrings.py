"""Help of verbs from docstrings."""

from phmrun.cli.docstrings import parse_docstring


def test_sections_become_texts_and_epilog():
    shown = parse_docstring(
        """Count things.

        More of it.

        Args:
            many: How many
                of them: 3.
            name: Their name.

        Examples:
            phmrun count

            phmrun count --many 3
        """
    )
    assert shown.help == "Count things.\n\nMore of it."
    assert shown.texts == {"many": "How many of them: 3.", "name": "Their name."}
    assert shown.epilog == "Examples:\n\nphmrun count\n\nphmrun count --many 3"
