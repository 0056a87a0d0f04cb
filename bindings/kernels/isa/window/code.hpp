// The parts of WindowCode, by the files that have them.
#pragma once

#include "kernels/window/vtable.hpp"

#ifndef DGO_ISA
#error "compile with -DDGO_ISA=<namespace of the instruction set>"
#endif

namespace dgo::DGO_ISA {

void mix(const MixRun& run);
void peak(const PeakRun& run);
void linear(const LinearRun& run);
void move(const MoveRun& run);

}  // namespace dgo::DGO_ISA
