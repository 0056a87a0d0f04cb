#include "kernels/narrow/isa.hpp"

namespace dgo {

namespace amx {
extern const NarrowCode kNarrowCode;
}
namespace avx512bf16 {
extern const NarrowCode kNarrowCode;
}
#ifdef DGO_TEST_SETS
namespace emulated {
extern const NarrowCode kNarrowCode;
}
constexpr const NarrowCode* kEmulated = &emulated::kNarrowCode;
#else
constexpr const NarrowCode* kEmulated = nullptr;
#endif

const Sets<NarrowCode>& narrow_sets() {
    static const Sets<NarrowCode> sets("narrow", "DNNL_GRAPH_OPS_NARROW",
                                       {{"amx", &amx::kNarrowCode, Needs::bf16_tiles},
                                        {"avx512bf16", &avx512bf16::kNarrowCode, Needs::bf16_pairs},
                                        {"emulated", kEmulated, Needs::test_sets}});
    return sets;
}

}  // namespace dgo
