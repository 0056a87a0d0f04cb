#include "isa.hpp"

#include <cstdlib>
#include <string>

#include "../guard.hpp"

namespace dgo {

namespace avx2 {
extern const VectorCode kVectorCode;
}
namespace avx512 {
extern const VectorCode kVectorCode;
}

namespace {

bool avx512_allowed() {
    const char* limit = std::getenv("ONEDNN_MAX_CPU_ISA");
    if (limit == nullptr) return true;
    std::string name(limit);
    for (char& letter : name) {
        if (letter >= 'a' && letter <= 'z') letter = static_cast<char>(letter - 'a' + 'A');
    }
    for (const char* smaller : {"SSE41", "AVX", "AVX2", "AVX2_VNNI", "AVX2_VNNI_2"}) {
        if (name == smaller) return false;
    }
    return true;
}

const VectorCode& choose() {
    __builtin_cpu_init();
    if (avx512_allowed() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
        return avx512::kVectorCode;
    }
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c")) {
        return avx2::kVectorCode;
    }
    fail(ErrorKind::runtime_unavailable, "this CPU lacks AVX2, FMA or F16C, which dnnl_graph_ops needs");
}

}  // namespace

const VectorCode& vector_code() {
    static const VectorCode& code = choose();
    return code;
}

}  // namespace dgo
