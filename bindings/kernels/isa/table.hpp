// What one instruction set offers, kernel by kernel; table.cpp puts it together.
#pragma once

#include "kernels/isa.hpp"

namespace dgo::DGO_ISA {

extern const AttentionCode kAttentionCode;
extern const ChainCode kChainCode;
extern const CopyCode kCopyCode;
extern const DepthwiseCode kDepthwiseCode;
extern const DotCode kDotCode;
extern const FilterCode kFilterCode;
extern const NormCode kNormCode;
extern const OverlapCode kOverlapCode;
extern const RecurrentCode kRecurrentCode;
extern const RowCode kRowCode;
extern const StemCode kStemCode;
extern const TailCode kTailCode;
extern const WindowCode kWindowCode;

}  // namespace dgo::DGO_ISA
