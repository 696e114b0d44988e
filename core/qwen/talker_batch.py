"""The talker with several utterances, each in a slot of its own, that take their steps together."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..engine import Program
from ..nn.slot_cache import SlotCache
from .talker import FRAMES_AT_FIRST, Talker, TalkerStep

FloatArray = NDArray[np.float32]

POSITIONS_STRIDE = 128
"""Positions are set aside in multiples of this."""

STEP_PROGRAMS = 32
"""How many programs for a step are kept: for other numbers of utterances, and on some devices of visible positions."""


class TalkerSlot:
    """The place of one utterance in a batch.

    Attributes:
        number: of its slot in the cache, which changes as others come and go; -1 once it was given back.
    """

    def __init__(self, number: int) -> None:
        self.number = number


class TalkerBatch:
    """Utterances that join and leave at any step. What the talker says to one does not depend on the others."""

    def __init__(self, talker: Talker, kv_type: str) -> None:
        self._talker = talker
        self._cache = SlotCache(talker.engine, talker.config, kv_type, limit=talker.context_length or None)
        self._residents: list[TalkerSlot | None] = []  # by slot of the cache
        self._steps: dict[tuple[int, int, int], Program] = {}

    @property
    def layers(self) -> int:
        """How many layers the talker has."""
        return self._talker.config.layers

    @property
    def limit(self) -> int | None:
        """Positions that the context of the model has, None where the file states none."""
        return self._cache.limit

    def join(self) -> TalkerSlot:
        """Return a slot for another utterance."""
        if None not in self._residents:
            self._residents.append(None)
        slot = TalkerSlot(self._residents.index(None))
        self._residents[slot.number] = slot
        return slot

    def leave(self, slot: TalkerSlot) -> None:
        """Give a slot back. The last to leave takes the memory along that a long utterance has needed."""
        number, slot.number = self._number(slot), -1
        self._residents[number] = None
        if number < self._cache.slots:
            self._cache.reset(number)
        if not any(self._residents):
            self._residents.clear()
            if self._cache.capacity > 2 * FRAMES_AT_FIRST:
                self.clear()

    def is_full(self, slot: TalkerSlot) -> bool:
        """Tell whether the context of the model has no room for another position."""
        return self._cache.room(self._number(slot)) == 0

    def prefill(
        self, slot: TalkerSlot, prompt: FloatArray, *, frames: int = 0, taps: Sequence[int | str] = ()
    ) -> TalkerStep:
        """Begin a sequence in a slot; as `TalkerSession.prefill`."""
        number, tokens = self._number(slot), len(prompt)
        self._cache.resize(
            _slots_for(number + 1), self._roomy(self._talker.positions_at_first(tokens, frames))
        )
        self._cache.reset(number)
        self._cache.reserve(number, tokens)
        program = self._talker.program(
            tokens, lambda graph: self._cache.view(graph, number, tokens), taps=taps
        )
        result = program(x=prompt, **self._cache.feed(number, tokens))
        self._cache.advance(number, tokens)
        return self._talker.steps(result, taps)[0]

    def decode(self, slots: Sequence[TalkerSlot], rows: FloatArray) -> list[TalkerStep]:
        """Add one position to each of some slots, with the inputs rows [slots, width]; raises as `decode_arrays`."""
        return list(map(TalkerStep, *self.decode_arrays(slots, rows)))

    def decode_arrays(self, slots: Sequence[TalkerSlot], rows: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Add one position to each of some slots; return logits [slots, vocabulary] and hidden states [slots, width].

        Args:
            slots: those that go on, no slot twice.
            rows: their inputs [slots, width].

        Raises:
            ValueError: the context of one is full.
            EngineError: the device has not enough memory.
        """
        self._bring_forward(slots)
        numbers = [self._number(slot) for slot in slots]
        for number in numbers:
            self._cache.reserve(number, 1)
        arrays = self._lone_step(numbers[0], rows[0]) if len(numbers) == 1 else None
        if arrays is None:
            arrays = self._steps_together(numbers, rows)
        for number in numbers:
            self._cache.advance(number, 1)
        return arrays

    def _lone_step(self, number: int, row: FloatArray) -> tuple[FloatArray, FloatArray] | None:
        """Return the step of one slot where a kernel computes it: several are sooner computed together."""
        kernel, length = self._talker.kernel, self._cache.lengths[number]
        if kernel is None or not kernel.takes(length):
            return None
        hidden, logits = kernel.step(self._cache.state, number, length, row)
        return logits[None], hidden[None]

    def _steps_together(self, numbers: Sequence[int], rows: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the steps of the first slots, which are `numbers` in some order, in that order."""
        count = len(numbers)
        columns = self._columns(count)
        in_order = np.zeros((columns, rows.shape[1]), np.float32)
        in_order[numbers] = rows
        result = self._step_program(columns)(x=in_order, **self._cache.step_feed(columns))
        logits, hidden = (result[name].reshape(columns, -1)[:count] for name in ("logits", "hidden"))
        return (logits, hidden) if numbers == list(range(count)) else (logits[numbers], hidden[numbers])

    def clear(self) -> None:
        """Let go of memory and programs. Nobody may have begun a sequence."""
        self._cache.clear()
        self._steps.clear()

    def _roomy(self, positions: int) -> int:
        """Round up, so that a prompt that is a little longer than others does not move them all."""
        rounded = -(-positions // POSITIONS_STRIDE) * POSITIONS_STRIDE
        return rounded if self.limit is None else min(rounded, self.limit)

    def _number(self, slot: TalkerSlot) -> int:
        if slot.number < 0:
            raise ValueError("the slot was given back")
        return slot.number

    def _bring_forward(self, slots: Sequence[TalkerSlot]) -> None:
        """Let some slots be the first ones: a step is for the first n."""
        wanted = {id(slot) for slot in slots}
        behind = [slot for slot in slots if self._number(slot) >= len(slots)]
        for number in range(len(slots)):
            resident = self._residents[number]
            if resident is None or id(resident) not in wanted:
                slot = behind.pop()
                other = self._number(slot)
                self._cache.exchange(number, other)
                self._residents[number], self._residents[other] = slot, resident
                slot.number = number
                if resident is not None:
                    resident.number = other

    def _columns(self, count: int) -> int:
        """Return how many slots take part in a step of the first `count`.

        Where programs are dear because they are captured, so many that few programs serve all: what is written for
        those who did not ask, each of them writes again before it is read.
        """
        if not self._cache.is_masked:
            return count
        columns = min(_rounded(count), self._cache.slots)
        roomy = all(length < self._cache.capacity for length in self._cache.lengths[count:columns])
        return columns if roomy else count

    def _step_program(self, slots: int) -> Program:
        signature = self._cache.signature(slots)
        program = self._steps.pop(signature, None)
        if program is None:
            current = [(key, known) for key, known in self._steps.items() if key[0] == signature[0]]
            self._steps = dict(current[-STEP_PROGRAMS + 1 :])
            program = self._talker.program(
                slots, lambda graph: self._cache.step_view(graph, slots), answered=slots
            )
        self._steps[signature] = program  # behind all that were used before
        return program


def _rounded(count: int) -> int:
    """Round up so that less than a half is added: 1, 2, 3, 4, 6, 8, 12, 16, 24, ..."""
    power = 1 << (count - 1).bit_length()
    return power * 3 // 4 if power >= 4 and count <= power * 3 // 4 else power


def _slots_for(count: int) -> int:
    """Return how many slots to have for that many: a power of two, so that memory moves seldom."""
    return 1 << (count - 1).bit_length()
