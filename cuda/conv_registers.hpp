// What the threads of a tile have in registers.
#pragma once

#include "conv_numbers.hpp"

namespace ggtts::conv {

// What one instruction multiplies: 16 outputs and 8 positions, and 8 inputs as float32 or 16 as float16 (PTX
// ISA, "Matrix fragments for mma.m16n8k8 with .tf32", "for mma.m16n8k16 with floating point type").
struct Operands {
    uint32_t outputs[4], positions[2];
    float *sums;
};

// What a lane of a warp has in registers. Of sixteen neighbouring inputs (a half of a chunk) it reads four,
// which are those of one instruction, or two of one and two of the next: which inputs meet is all that
// matters.
template <class Shape>
struct Registers {
    float sums[Shape::bands][quads_of_band][4];
    float totals[Shape::exact ? Shape::bands : 1][quads_of_band][4];
    Floats inputs[Shape::bands][2], weights[2];
    TwoWords input_halves[Shape::bands][2];
    Words weight_halves;
    uint32_t places[Shape::bands];   // what it reads of two rows for the first tap, in 16 bits each
    const uint8_t *weights_to_come;  // where those that it copies next are
};

}  // namespace ggtts::conv
