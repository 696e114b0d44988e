"""A process with little memory that opens GGUF files: `python limited_reader.py MEGABYTES FILE...`.

It prints a JSON line for each file: {"file": ..., "error": null or the message, "kind": null or the type of the error}.
"""

from __future__ import annotations

import json
import resource
import sys
from pathlib import Path


def main() -> None:
    """Load everything that is needed first, then limit the memory, then read."""
    from ggtts.core.engine import open_gguf
    from ggtts.core.errors import GgttsError
    from ggtts.core.inspection import inspect_path

    limit_memory(int(sys.argv[1]))
    for name in sys.argv[2:]:
        result: dict[str, object] = {"file": name, "error": None, "kind": None}
        try:
            file = open_gguf(name)
            _ = file.metadata
            for tensor in file.names:
                file.shape(tensor)
            inspect_path(Path(name))
        except GgttsError as error:
            result |= {"error": str(error), "kind": "GgttsError"}
        except Exception as error:
            result |= {"error": repr(error), "kind": type(error).__name__}
        print(json.dumps(result), flush=True)


def limit_memory(megabytes: int) -> None:
    """Allow so much address space beyond what is in use, and no dump of a crash."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + megabytes * 2**20
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


if __name__ == "__main__":
    main()
