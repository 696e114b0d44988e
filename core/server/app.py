"""The server as an ASGI application: one model, its voices, and the addresses of the OpenAI API.

app = create_app(open_model(), ServerOptions(api_key="secret"))
uvicorn.run(app, port=8080)
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any, NoReturn

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from .admission import Admission
from .casting import Cast
from .errors import ApiError, server_error, status_error
from .families import Family, Model, family_of
from .gate import Gate
from .metrics import CONTENT_TYPE, Metrics
from .openapi import document
from .options import ServerOptions
from .page import Page
from .production import Speaks
from .renewing_scheduler import RenewingScheduler
from .speech_calls import SpeechCalls
from .speech_endpoint import SpeechEndpoint
from .voice_endpoint import VoiceEndpoint
from .voice_store import VoiceStore
from .warming import Warming

logger = logging.getLogger(__name__)


def create_app(model: Model | Family, options: ServerOptions | None = None) -> ASGIApp:
    """Return the application that serves a model. It runs while its lifespan does; the model stays the caller's.

    Raises:
        UsageError: the model does not speak the language of the options.
        OutputError: the folder of the voices cannot be used.
    """
    return Server(family_of(model), options or ServerOptions()).app


class Server:
    """A model being served.

    Attributes:
        app: the ASGI application.
        admission: who is spoken for, and who waits.
    """

    def __init__(self, family: Family, options: ServerOptions) -> None:
        """See `create_app`."""
        self._options = options
        self._family = family
        self._id = options.alias or self._family.name or "ggtts"
        self._created = int(time.time())
        self._state = "warming"
        self._scheduler: RenewingScheduler | None = None
        self._threads: ThreadPoolExecutor | None = None
        store = VoiceStore(options.voices, self._family.clone)
        cast = Cast(self._family, store)
        self._warming = Warming(self._family, cast, options)
        self.admission = Admission(options.max_batch, options.max_queue)
        self._metrics = Metrics(self.admission, options.max_batch)
        calls = SpeechCalls(self._family, cast, options)
        speech = SpeechEndpoint(
            calls,
            self.admission,
            self._metrics,
            options,
            self._speaks,
            self._pool,
            sample_rate=self._family.sample_rate,
            frame_rate=self._family.frame_rate,
        )
        voices = VoiceEndpoint(self._family, store, cast)
        self._page = Page()
        self._document = document(calls.fields, secured=options.api_key is not None)
        router = Router(
            self._routes(speech, voices), redirect_slashes=False, default=_nothing, lifespan=self._lifespan
        )
        self.app: ASGIApp = Gate(router, options, self._metrics)

    def _routes(self, speech: SpeechEndpoint, voices: VoiceEndpoint) -> list[Route]:
        return [
            Route("/", self._show_page, methods=["GET"]),
            Route("/health", self._show_health, methods=["GET"]),
            Route("/metrics", self._show_metrics, methods=["GET"]),
            Route("/openapi.json", self._show_document, methods=["GET"]),
            Route("/v1/models", self._list_models, methods=["GET"]),
            Route("/v1/models/{model:path}", self._show_model, methods=["GET"]),
            Route("/v1/audio/models", self._list_models, methods=["GET"]),
            Route("/v1/audio/speech", speech, methods=["POST"]),
            Route("/v1/audio/voices", voices.collection, methods=["GET", "POST"]),
            Route("/v1/voices", voices.listing, methods=["GET"]),
            Route("/v1/audio/voices/{name:path}", voices.delete, methods=["DELETE"]),
        ]

    @asynccontextmanager
    async def _lifespan(self, app: object) -> AsyncIterator[None]:
        """Hold what a running server needs: threads, the scheduler, and a warm model."""
        self._state = "warming"
        self._threads = ThreadPoolExecutor(self._options.max_batch, "ggtts-answer")
        self._scheduler = RenewingScheduler(self._family, self._options.max_batch)
        warming = asyncio.ensure_future(asyncio.to_thread(self._warm, self._scheduler))
        try:
            yield
        finally:
            self._state = "stopping"
            scheduler, threads = self._scheduler, self._threads
            self._scheduler = self._threads = None
            await asyncio.to_thread(scheduler.close)
            await asyncio.gather(warming, return_exceptions=True)
            await asyncio.to_thread(threads.shutdown)

    def _warm(self, scheduler: Speaks) -> None:
        """Speak a little, so that nobody waits for what is only done once."""
        begin = time.perf_counter()
        try:
            self._warming.speak(scheduler, lambda: self.admission.active > 0)
        except Exception as error:
            if self._state == "warming":
                self._state = f"failed: {error}"
                logger.exception("the model cannot speak")
            return
        if self._state == "warming":
            self._state = "ok"
            logger.info("ready: warmed up in %.1f s", time.perf_counter() - begin)

    def _speaks(self) -> Speaks:
        if self._scheduler is None:
            raise server_error("the server is not running", HTTPStatus.SERVICE_UNAVAILABLE)
        return self._scheduler

    def _pool(self) -> ThreadPoolExecutor:
        if self._threads is None:
            raise server_error("the server is not running", HTTPStatus.SERVICE_UNAVAILABLE)
        return self._threads

    async def _show_page(self, request: Request) -> Response:
        return self._page.response()

    async def _show_health(self, request: Request) -> Response:
        status = HTTPStatus.OK if self._state == "ok" else HTTPStatus.SERVICE_UNAVAILABLE
        value = {
            "status": self._state,
            "model": self._id,
            "active": self.admission.active,
            "waiting": self.admission.waiting,
            "places": self._options.max_batch,
        }
        return JSONResponse(value, status, headers={"Cache-Control": "no-store"})

    async def _show_metrics(self, request: Request) -> Response:
        return Response(self._metrics.exposition(), headers={"Content-Type": CONTENT_TYPE})

    async def _show_document(self, request: Request) -> Response:
        return JSONResponse(self._document)

    async def _list_models(self, request: Request) -> Response:
        """Under `data` as OpenAI lists them, and under `models` as Open WebUI looks for them."""
        models = [self._described()]
        return JSONResponse({"object": "list", "data": models, "models": models})

    async def _show_model(self, request: Request) -> Response:
        if request.path_params["model"] != self._id:
            raise ApiError(
                HTTPStatus.NOT_FOUND,
                f"there is no model {request.path_params['model'][:80]!r}, only {self._id!r}",
                kind="not_found_error",
                param="model",
                code="model_not_found",
            )
        return JSONResponse(self._described())

    def _described(self) -> Mapping[str, Any]:
        return {
            "id": self._id,
            "name": self._id,
            "object": "model",
            "created": self._created,
            "owned_by": "local",
            "clones": self._family.clones,
        }


async def _nothing(scope: Scope, receive: Receive, send: Send) -> NoReturn:
    raise status_error(HTTPStatus.NOT_FOUND)
