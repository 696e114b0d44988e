"""The page at `/`: one file without outside assets, and the rules by which browsers show it."""

from __future__ import annotations

import base64
import hashlib
import re
from importlib.resources import files

from starlette.responses import Response

_FILE = "page.html"
_SCRIPT = re.compile(r"<script>(.*?)</script>", re.DOTALL)


class Page:
    """The page."""

    def __init__(self) -> None:
        self._html = files(__package__).joinpath(_FILE).read_text("utf-8")
        # Only the script of the page itself may run, so that nothing that it shows can be one. The worklet of the
        # microphone comes from a blob: URL.
        scripts = " ".join(f"'sha256-{_digest(script)}'" for script in _SCRIPT.findall(self._html))
        self._policy = "; ".join(
            (
                "default-src 'none'",
                f"script-src {scripts} blob:",
                "style-src 'unsafe-inline'",
                "connect-src 'self'",
                "media-src blob:",
                "img-src data:",
                "base-uri 'none'",
                "form-action 'none'",
                "frame-ancestors 'none'",
            )
        )

    def response(self) -> Response:
        """Return the answer to `GET /`."""
        return Response(
            self._html,
            headers={"Content-Security-Policy": self._policy, "Cache-Control": "no-cache"},
            media_type="text/html",
        )


def _digest(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii")
