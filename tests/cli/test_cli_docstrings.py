"""Help of verbs from docstrings."""

from typing import Annotated

import typer

from phmrun.cli.docstrings import VerbGroup, parse_docstring


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


def test_options_get_their_text():
    app = VerbGroup()

    @app.command("count")
    def count(many: Annotated[int, typer.Option(min=1)] = 2, name: str = "x") -> None:
        """Count things.

        Args:
            many: Number of things.
        """

    command = typer.main.get_command(app)
    texts = {parameter.name: parameter.help for parameter in command.params}
    assert (texts["many"], texts["name"], command.help) == ("Number of things.", None, "Count things.")
