#include "kernels/isa.hpp"

#include <cstdlib>
#include <string>

#include "common/error.hpp"
#include "kernels/copy/vtable.hpp"

namespace dgo {

namespace avx2 {
extern const VectorCode kVectorCode;
}  // namespace avx2
namespace avx512 {
extern const VectorCode kVectorCode;
extern const bool kEmulated;  // made of AVX2 instructions
}  // namespace avx512

namespace {

constexpr const char* kVariable = "DNNL_GRAPH_OPS_ISA";

std::string variable(const char* name) {
    const char* value = std::getenv(name);
    return value == nullptr ? "" : value;
}

bool avx512_allowed() {
    std::string name = variable("ONEDNN_MAX_CPU_ISA");
    if (name.empty()) name = variable("DNNL_MAX_CPU_ISA");  // oneDNN's older name
    for (char& letter : name) {
        if (letter >= 'a' && letter <= 'z') letter = static_cast<char>(letter - 'a' + 'A');
    }
    for (const char* smaller : {"SSE41", "AVX", "AVX2", "AVX2_VNNI", "AVX2_VNNI_2"}) {
        if (name == smaller) return false;
    }
    return true;
}

// These ask whether the operating system saves the registers, too.
bool has_avx2() {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
}

bool has_avx512() {
    return has_avx2() &&
           (avx512::kEmulated || (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                                  __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")));
}

const VectorCode& named(const std::string& name) {
    for (const VectorCode* code : {&avx2::kVectorCode, &avx512::kVectorCode}) {
        if (name == code->isa) return *code;
    }
    fail(ErrorKind::invalid_argument, std::string(kVariable) + " is '" + name +
                                          "', which is no instruction set; set it to avx2 or avx512, or leave "
                                          "it out");
}

const VectorCode& forced(const std::string& name) {
    const VectorCode& code = named(name);
    if (&code == &avx512::kVectorCode && !has_avx512()) {
        fail(ErrorKind::runtime_unavailable,
             std::string(kVariable) +
                 " is 'avx512', but this CPU or its operating system lacks AVX512F, AVX512BW, "
                 "AVX512DQ or AVX512VL; set it to avx2, or leave it out");
    }
    return code;
}

const VectorCode& choose() {
    __builtin_cpu_init();
    if (!has_avx2()) {
        fail(ErrorKind::runtime_unavailable, "this CPU lacks AVX2, FMA or F16C, which dnnl_graph_ops needs");
    }
    const std::string name = variable(kVariable);
    if (!name.empty()) return forced(name);
    return avx512_allowed() && has_avx512() ? avx512::kVectorCode : avx2::kVectorCode;
}

}  // namespace

const VectorCode& vector_code() {
    static const VectorCode& code = choose();
    return code;
}

BlockFn copy_block(BlockKind kind, Cell src, Cell dst) { return vector_code().copy.block(kind, src, dst); }

const VectorCode& vector_code_of(const std::string& isa) { return isa.empty() ? vector_code() : named(isa); }

}  // namespace dgo
