#include "kernels/isa/depthwise/gather.hpp"
#include "kernels/isa/depthwise/gradient.hpp"

namespace dgo::DGO_ISA {

void gather_f32(const GatherRun& run) { gather<F32>(run); }
void gradient_f32(const ChannelsGradient& run) { gradient<F32>(run); }

}  // namespace dgo::DGO_ISA
