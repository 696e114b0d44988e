"""`qwen-tts` as a process of its own, with the model that hums: `python humming_tts.py SECONDS_PER_FRAME ARGUMENTS`."""

import sys
from pathlib import Path

from ggtts.cli.errors import run
from ggtts.cli.qwen_tts import NAME, Services, command

sys.path.insert(0, str(Path(__file__).parents[1]))
from support.fake_model import DEMO_TALKER, FakeModel

if __name__ == "__main__":
    model = FakeModel(seconds_per_frame=float(sys.argv[1]))
    sys.exit(run(command, NAME, sys.argv[2:], Services(model.open, lambda: (DEMO_TALKER, Path("codec")))))
