#include "kernels/integer/isa.hpp"

namespace dgo {

namespace amxint8 {
extern const IntegerCode kIntegerCode;
}
namespace avx512vnni {
extern const IntegerCode kIntegerCode;
}
namespace avxvnni {
extern const IntegerCode kIntegerCode;
}
namespace avx2words {
extern const IntegerCode kIntegerCode;
}
#ifdef DGO_TEST_SETS
namespace emulatedint8tiles {
extern const IntegerCode kIntegerCode;
}
namespace emulatedint8 {
extern const IntegerCode kIntegerCode;
}
constexpr const IntegerCode *kEmulatedTiles = &emulatedint8tiles::kIntegerCode,
                            *kEmulated = &emulatedint8::kIntegerCode;
#else
constexpr const IntegerCode *kEmulatedTiles = nullptr, *kEmulated = nullptr;
#endif

const Sets<IntegerCode>& integer_sets() {
    static const Sets<IntegerCode> sets("integer", "DNNL_GRAPH_OPS_INT8",
                                        {{"amxint8", &amxint8::kIntegerCode, Needs::byte_tiles},
                                         {"avx512vnni", &avx512vnni::kIntegerCode, Needs::byte_quads},
                                         {"avxvnni", &avxvnni::kIntegerCode, Needs::short_byte_quads},
                                         {"avx2words", &avx2words::kIntegerCode, Needs::avx2},
                                         {"emulatedint8tiles", kEmulatedTiles, Needs::test_sets},
                                         {"emulatedint8", kEmulated, Needs::test_sets}});
    return sets;
}

}  // namespace dgo
