"""A process with one peer of the benchmark: Warp's CPU back end, or Numba's simulator.

Reads questions, one JSON object a line, from the standard input and answers each with one. It needs NumPy and the peer,
nothing of this project, so that any interpreter which has them can run it.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))


def answer(peer: str, rows: dict[str, Any], question: dict[str, Any]) -> dict[str, Any]:
    """What the benchmark gets."""
    name = question["row"]
    if question["do"] == "prepare":
        try:
            module = importlib.import_module(f"peer_{peer}")
        except ImportError as problem:
            return {"missing": f"not installed: {problem}"}
        make = getattr(module, name, None)
        if make is None:
            return {"missing": "no such row"}
        rows[name] = make(**{k: v for k, v in question.items() if k not in ("do", "row")})
        return {"version": module.VERSION}
    run = rows[name]
    start = time.perf_counter()
    for _ in range(question["count"]):
        run()
    return {"seconds": time.perf_counter() - start}


def main() -> None:
    # Peers print what they like; the benchmark reads the true standard output only.
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    rows: dict[str, Any] = {}
    for line in sys.stdin:
        replies.write(json.dumps(answer(sys.argv[1], rows, json.loads(line))) + "\n")
        replies.flush()


if __name__ == "__main__":
    main()
