"""The prompts of speeches that begin together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ..speech.calls import Stage
from .prompt import Prompt, PromptBuilder, PromptRequest


class Prompts(Protocol):
    """Builds prompts, for speeches by themselves or for those of a batch."""

    async def prompt(self, request: PromptRequest) -> Prompt:
        """Return the prompt of a request.

        Raises:
            UsageError: there is nothing to say.
            TextError: a text holds a lone surrogate.
        """


class PromptStage(Stage[PromptRequest, Prompt]):
    """Builds all that are wanted in one go."""

    gathers = True

    def __init__(self, builder: PromptBuilder) -> None:
        self._builder = builder

    def run(self, arguments: Sequence[PromptRequest]) -> list[Prompt | Exception]:
        """Build prompts."""
        return self._builder.build_all(arguments)

    async def prompt(self, request: PromptRequest) -> Prompt:
        """Return the prompt of a request."""
        return await self.call(request)
