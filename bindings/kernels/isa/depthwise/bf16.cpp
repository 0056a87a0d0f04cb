#include "kernels/isa/depthwise/gather.hpp"
#include "kernels/isa/depthwise/gradient.hpp"

namespace dgo::DGO_ISA {

void gather_bf16(const GatherRun& run) { gather<Bf16>(run); }
void gradient_bf16(const ChannelsGradient& run) { gradient<Bf16>(run); }

}  // namespace dgo::DGO_ISA
