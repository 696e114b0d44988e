"""A process that profiles, with two threads, what GGML gives up on: ids beyond their table. It says when it goes on."""

import numpy as np

from ggtts import _native
from ggtts.core.engine import Engine
from ggtts.core.errors import EngineError

if __name__ == "__main__":
    engine = Engine("cpu", threads=1)
    engine.backend = _native.Backend("cpu", 2)  # also on one core
    graph = engine.graph()
    table, state = graph.input("table", (64, 8)), engine.state({"ids": ((1000,), "i32")})
    program = graph.program({"rows": table.get_rows(graph.use(state["ids"]))})
    values = np.zeros((8, 64), np.float32)
    state.write("ids", np.repeat(np.int32([8, 0]), [1, 999]))
    try:
        program.profile(table=values)
    except EngineError:
        print("goes on")
