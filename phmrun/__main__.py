"""``python -m phmrun``: the command line, where the script of that name is not on the path."""

from phmrun.cli.app import main

main()
