"""Run commands of the installed phmrun, one a line of standard input, in forks of one process with its imports.

A line is ``[folder, arguments]`` as JSON, the answer ``[exit code, standard output, standard error]``.
"""

import json
import sys
from pathlib import Path

from forks import completed

for line in sys.stdin:
    folder, arguments = json.loads(line)
    others = 2 if arguments[0] == "sweep" else 0
    done = completed(arguments, Path(folder), {"PHMRUN_CACHE": str(Path(folder, "cache"))}, others)
    print(json.dumps([done.returncode, done.stdout, done.stderr]), flush=True)
