"""The talker with several utterances, each in a slot of its own, that take their steps together."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..engine import Program
from ..errors import EngineError
from ..nn.buckets import groups_of_kin, power_of_two, prompt_bucket, rounded_by_half
from ..nn.slot_cache import SlotCache
from .program_shelf import ProgramShelf
from .steps_under_way import StepsUnderWay, TalkerSlot
from .talker import FRAMES_AT_FIRST, Talker, TalkerStep, padded

FloatArray = NDArray[np.float32]

POSITIONS_STRIDE = 128
"""Positions are set aside in multiples of this."""

STEP_PROGRAMS, LASTING_PROGRAMS = 32, 64
"""How many programs are kept: for steps of other numbers of utterances, and on devices where they last until the batch
ends, for prompts and of visible positions, too."""

PAIRS_AT_ONCE = 8
"""How many utterances move in one run, at most."""

_logger = logging.getLogger("ggtts.qwen")


@dataclass(frozen=True)
class Prefill:
    """What `TalkerBatch.prefill` is asked.

    Attributes:
        slot: where the sequence begins.
        prompt: input rows [tokens, width].
        frames: how many more positions are expected, at most.
        taps: what is wanted besides, as in `TalkerSession.prefill`.
    """

    slot: TalkerSlot
    prompt: FloatArray
    frames: int = 0
    taps: Sequence[int | str] = ()


class TalkerBatch:
    """Utterances that join and leave at any step. What the talker says to one does not depend on the others.

    Where programs are cheap, on the CPU, memory and programs are as much as those need who are here. Elsewhere few
    programs serve all, and they last, as memory does, until the batch ends.
    """

    def __init__(self, talker: Talker, kv_type: str, capacity: int | None = None) -> None:
        """`capacity` is how many utterances there will be at once, None where nobody knows."""
        self._talker, self._capacity = talker, capacity
        self._lasting = talker.keeps_programs
        self._cache = SlotCache(talker.engine, talker.config, kv_type, limit=talker.context_length or None)
        self._residents: list[TalkerSlot | None] = []  # by slot of the cache
        self._programs = ProgramShelf(LASTING_PROGRAMS if self._lasting else STEP_PROGRAMS)
        self._under_way: StepsUnderWay | None = None

    @property
    def programs_built(self) -> int:
        """How many programs were made so far."""
        return self._programs.built

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
            if self._hoards():
                self.clear()

    def is_full(self, slot: TalkerSlot) -> bool:
        """Tell whether the context of the model has no room for another position."""
        return self._cache.room(self._number(slot)) == 0

    def prefill(
        self, slot: TalkerSlot, prompt: FloatArray, *, frames: int = 0, taps: Sequence[int | str] = ()
    ) -> TalkerStep:
        """Begin a sequence in a slot; as `TalkerSession.prefill`."""
        tokens = len(prompt)
        if self._talker.bucket(tokens, taps) is not None:
            return self.prefill_together([Prefill(slot, prompt, frames)])[0]
        number = self._begin(slot, tokens, frames)
        program = self._talker.program(
            tokens, lambda graph: self._cache.view(graph, number, tokens), taps=taps
        )
        result = program(x=prompt, **self._cache.feed(number, tokens))
        self._cache.advance(number, tokens)
        return self._talker.steps(result, taps)[0]

    def groups(self, prompts: Sequence[Prefill]) -> list[list[int]]:
        """Return which of some prompts are computed together, as places: those of the first one are in front."""
        if not self._lasting:
            return [[place] for place in range(len(prompts))]
        return groups_of_kin([None if one.taps else len(one.prompt) for one in prompts])

    def prefill_together(self, prompts: Sequence[Prefill]) -> list[TalkerStep]:
        """Begin sequences in slots of their own, in one run; for one of the `groups` where prompts are padded.

        Raises:
            ValueError: a prompt is longer than the context of the model.
            EngineError: the device has not enough memory.
        """
        self._settle()
        lengths = [len(one.prompt) for one in prompts]
        self._make_room(
            len(self._residents),  # those who are here and did not begin will soon
            max(self._talker.positions_at_first(len(one.prompt), one.frames) for one in prompts),
        )
        numbers = [
            self._begin(one.slot, length, one.frames) for one, length in zip(prompts, lengths, strict=True)
        ]
        positions = prompt_bucket(max(lengths)) or max(lengths)
        # Those who make the number a round one are the last prompt again, which is written twice then.
        count = power_of_two(len(prompts))
        places = [*range(len(prompts)), *[len(prompts) - 1] * (count - len(prompts))]
        rows = [padded(one.prompt, positions) for one in prompts]
        ends = np.array([lengths[place] for place in places], np.int32) - 1
        result = self._prompt_program(count, positions)(
            x=np.concatenate([rows[place] for place in places]),
            answered=ends + np.arange(count, dtype=np.int32) * positions,
            **self._cache.prompt_rows([numbers[place] for place in places], positions),
        )
        for number, length in zip(numbers, lengths, strict=True):
            self._cache.advance(number, length)
        return self._talker.steps(result)[: len(prompts)]

    def _begin(self, slot: TalkerSlot, tokens: int, frames: int) -> int:
        """Make room for a sequence in a slot, and return the number of the slot."""
        self._settle()
        number = self._number(slot)
        self._make_room(number + 1, self._talker.positions_at_first(tokens, frames))
        self._cache.reset(number)
        self._cache.reserve(number, tokens)
        return number

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
            EngineError: the device failed or has not enough memory.
        """
        arrays = self._lone_step(slots[0], rows[0]) if len(slots) == 1 else None
        if arrays is not None:
            return arrays
        under_way = self.begin(slots, rows)
        if under_way is not None:
            return under_way.result()
        self._make_room_for_steps([self._number(slot) for slot in slots])
        if not self._stand_close(slots):
            self._bring_forward(slots)
        arrays = self._steps_together([slot.number for slot in slots], rows)
        for slot in slots:
            self._cache.advance(slot.number, 1)
        return arrays

    @property
    def works_beside(self) -> bool:
        """Whether steps of several slots can be under way on the device while its host does something else."""
        return self._talker.kernel is not None and self._talker.kernel.takes_several

    def begin(self, slots: Sequence[TalkerSlot], rows: FloatArray) -> StepsUnderWay | None:
        """Do as `decode_arrays` and let them be under way, where steps can be; None where they cannot.

        Whatever comes next on these slots waits for them.
        """
        kernel = self._talker.kernel
        if kernel is None or not kernel.takes_several:
            return None
        self._settle()
        numbers = [self._number(slot) for slot in slots]
        self._make_room_for_steps(numbers)
        cache = self._cache
        begun = kernel.begin_together(
            cache.state, numbers, [cache.lengths[number] for number in numbers], rows
        )
        self._under_way = StepsUnderWay(begun, slots, cache)
        return self._under_way

    def _settle(self) -> None:
        """Wait for what is under way."""
        under_way, self._under_way = self._under_way, None
        if under_way is not None:
            under_way.wait()

    def _lone_step(self, slot: TalkerSlot, row: FloatArray) -> tuple[FloatArray, FloatArray] | None:
        """Return the step of one slot where a kernel computes it."""
        self._settle()
        kernel, number = self._talker.kernel, self._number(slot)
        if kernel is None or not kernel.takes(self._cache.lengths[number]):
            return None
        self._make_room_for_steps([number])
        hidden, logits = kernel.step(self._cache.state, number, self._cache.lengths[number], row)
        self._cache.advance(number, 1)
        return logits[None], hidden[None]

    def _steps_together(self, numbers: Sequence[int], rows: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the steps of some slots, which are the first ones in some order or stand close, in that order."""
        columns = self._columns(max(numbers) + 1)
        in_order = np.zeros((columns, rows.shape[1]), np.float32)
        in_order[numbers] = rows
        result = self._step_program(columns)(x=in_order, **self._cache.step_feed(columns))
        logits, hidden = (result[name].reshape(columns, -1) for name in ("logits", "hidden"))
        count = len(numbers)
        if numbers == list(range(count)):
            return logits[:count], hidden[:count]
        return logits[numbers], hidden[numbers]

    def clear(self) -> None:
        """Let go of memory and programs. Nobody may have begun a sequence."""
        self._settle()
        self._cache.clear()
        self._programs.clear()

    def _hoards(self) -> bool:
        """Tell whether a long speech has left more memory than is to wait for the next one."""
        if not self._lasting:
            return self._cache.capacity > 2 * FRAMES_AT_FIRST
        total = self._talker.engine.device.memory_total
        return bool(total) and self._cache.bytes_for(self._cache.slots, self._cache.capacity) > total // 4

    def _rounded(self, positions: int, *, doubling: bool = False) -> int:
        """Round up, so that a prompt that is a little longer than others does not move them all."""
        strides = -(-positions // POSITIONS_STRIDE)
        rounded = POSITIONS_STRIDE * (power_of_two(strides) if doubling else strides)
        return rounded if self.limit is None else min(rounded, self.limit)

    def _make_room(self, slots: int, positions: int) -> None:
        """Have so many slots and positions: where programs last, more than that if the device has them to spare."""
        cache, tight = self._cache, self._rounded(positions)
        if slots <= cache.slots and tight <= cache.capacity:
            return
        if self._lasting and self._have_plenty(slots, self._rounded(positions, doubling=True)):
            return
        cache.resize(cache.slots if slots <= cache.slots else power_of_two(slots), tight)

    def _have_plenty(self, slots: int, positions: int) -> bool:
        """Make room in few steps; tell whether there is."""
        cache, plenty = self._cache, _power_of_four(slots)
        plenty = max(slots, min(plenty, self._capacity or plenty), cache.slots)
        needed = cache.bytes_for(plenty, max(positions, cache.capacity))
        try:
            if not self._talker.engine.has_to_spare(needed):
                return False
            cache.resize(plenty, positions)
        except EngineError as error:
            _logger.info("%s: taking only what is needed", error)
            return False
        return True

    def _make_room_for_steps(self, numbers: Sequence[int]) -> None:
        """Have room for one more position in each of some slots."""
        cache = self._cache
        longest = max(cache.lengths[number] for number in numbers)
        if longest < cache.capacity and (self.limit is None or longest < self.limit):
            return
        for number in numbers:
            needed = cache.lengths[number] + 1
            if self._lasting and needed > cache.capacity and cache.room(number) != 0:
                self._make_room(cache.slots, needed)
            cache.reserve(number, 1)

    def _number(self, slot: TalkerSlot) -> int:
        if slot.number < 0:
            raise ValueError("the slot was given back")
        return slot.number

    def _stand_close(self, slots: Sequence[TalkerSlot]) -> bool:
        """Tell whether a step of all slots up to the last of these takes no more columns than one of theirs would.

        Nobody has to move then. Those in between who do not take part are computed for nothing, as those behind are.
        """
        if not self._lasting:
            return False
        numbers = {self._number(slot) for slot in slots}
        highest = max(numbers) + 1
        if power_of_two(highest) != power_of_two(len(numbers)):
            return False
        lengths, capacity = self._cache.lengths, self._cache.capacity
        return all(lengths[number] < capacity for number in range(highest) if number not in numbers)

    def _bring_forward(self, slots: Sequence[TalkerSlot]) -> None:
        """Let some slots be the first ones: a step is for the first n."""
        wanted = {id(slot) for slot in slots}
        behind = [self._number(slot) for slot in slots if self._number(slot) >= len(slots)]
        free = (
            number
            for number, resident in enumerate(self._residents[: len(slots)])
            if resident is None or id(resident) not in wanted
        )
        pairs = list(zip(free, behind, strict=True))
        at_once = PAIRS_AT_ONCE if self._lasting else 1
        for first in range(0, len(pairs), at_once):
            self._exchange(pairs[first : first + at_once])

    def _exchange(self, pairs: Sequence[tuple[int, int]]) -> None:
        """Let those in pairs of slots change places."""
        self._cache.exchange_all(pairs)
        residents = self._residents
        for one, other in pairs:
            residents[one], residents[other] = residents[other], residents[one]
            for number in (one, other):
                resident = residents[number]
                if resident is not None:
                    resident.number = number

    def _columns(self, count: int) -> int:
        """Return how many slots take part in a step of the first `count`.

        Where programs are dear because they are captured, so many that few programs serve all: what is written for
        those who did not ask, each of them writes again before it is read.
        """
        if not self._cache.is_masked:
            return count
        columns = min(power_of_two(count) if self._lasting else rounded_by_half(count), self._cache.slots)
        roomy = all(length < self._cache.capacity for length in self._cache.lengths[count:columns])
        return columns if roomy else count

    def _step_program(self, slots: int) -> Program:
        revision, *key = self._cache.signature(slots)

        def build() -> Program:
            return self._talker.program(
                slots, lambda graph: self._cache.step_view(graph, slots), answered=slots
            )

        return self._programs.get(revision, ("step", *key), build)

    def _prompt_program(self, prompts: int, positions: int) -> Program:
        def build() -> Program:
            return self._talker.program(
                prompts * positions,
                lambda graph: self._cache.prompts_view(graph, prompts, positions),
                answered=prompts,
                named=True,
            )

        return self._programs.get(self._cache.revision, ("prompts", prompts, positions), build)


def _power_of_four(count: int) -> int:
    """Round up to 1, 4, 16, 64, ..., so that memory moves seldom."""
    power = power_of_two(count)
    return power if (power.bit_length() - 1) % 2 == 0 else 2 * power
