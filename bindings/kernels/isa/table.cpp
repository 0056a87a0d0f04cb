// What one instruction set offers.
#include "kernels/isa/lanes.hpp"
#include "kernels/isa/table.hpp"

namespace dgo::DGO_ISA {

extern const bool kEmulated;
const bool kEmulated = kEmulates;

extern const VectorCode kVectorCode;
const VectorCode kVectorCode = {DGO_TEXT(DGO_ISA), kLanes,   kAttentionCode, kChainCode, kCopyCode,
                                kDepthwiseCode,    kDotCode, kFilterCode,    kNormCode,  kOverlapCode,
                                kRecurrentCode,    kRowCode, kStemCode,      kTailCode,  kWindowCode};

}  // namespace dgo::DGO_ISA
