"""Writes a trackio database from JSON on standard input, as a process of its own: ``python -m`` this module.

trackio takes its folder (TRACKIO_DIR) when it is imported. Written is its database alone: nothing is served or sent.
"""

import json
import sys

MISSING = 3
"""The exit code where trackio cannot be imported; the reason is on standard error."""


def main() -> int:
    """Reads project, run, rows, steps, times and config, and logs them; :data:`MISSING` where trackio is."""
    try:
        from trackio.sqlite_storage import SQLiteStorage
    except ImportError as error:
        sys.stderr.write(str(error))
        return MISSING
    given = json.load(sys.stdin)
    SQLiteStorage.bulk_log(
        project=given["project"],
        run=given["run"],
        metrics_list=given["rows"],
        steps=given["steps"],
        timestamps=given["times"],
        config=given["config"],
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
