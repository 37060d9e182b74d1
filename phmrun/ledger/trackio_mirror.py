"""Writes a trackio database from JSON on standard input, as a process of its own: ``python -m`` this module.

trackio takes its folder (TRACKIO_DIR) when it is imported. Written is its database alone: nothing is served or sent.
"""

import json
import sys


def main() -> int:
    """Reads project, run, rows, steps, times and config, and logs them; 3 and the reason where trackio is missing."""
    try:
        from trackio.sqlite_storage import SQLiteStorage
    except ImportError as error:
        sys.stderr.write(str(error))
        return 3
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
