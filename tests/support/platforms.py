"""What a test needs of the system that it runs on."""

from __future__ import annotations

import os

import pytest

posix_only = pytest.mark.skipif(os.name != "posix", reason="signals, pipes and file descriptors of POSIX")
needs_full_disk = pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
