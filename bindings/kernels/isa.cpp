#include "kernels/isa.hpp"

#include <cstdlib>
#include <string>
#include <utility>

#include "common/error.hpp"
#include "kernels/copy/vtable.hpp"
#include "kernels/declaration.hpp"

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

// What keeps the library from AVX-512, too; empty: nothing.
std::string limit() {
    for (const char* variable_name : {"ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA"}) {  // the second is oneDNN's older one
        std::string name = variable(variable_name);
        if (name.empty()) continue;
        for (char& letter : name) {
            if (letter >= 'a' && letter <= 'z') letter = static_cast<char>(letter - 'a' + 'A');
        }
        for (const char* smaller : {"SSE41", "AVX", "AVX2", "AVX2_VNNI", "AVX2_VNNI_2"}) {
            if (name == smaller) return std::string(variable_name) + " is " + name;
        }
        return "";
    }
    return "";
}

// These ask whether the operating system saves the registers, too.
bool has_avx2() {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
}

// Why AVX-512 code does not run here; empty: it does.
std::string avx512_refusal() {
    if (avx512::kEmulated) return "";
    const std::pair<const char*, bool> needed[] = {{"AVX512F", __builtin_cpu_supports("avx512f")},
                                                   {"AVX512BW", __builtin_cpu_supports("avx512bw")},
                                                   {"AVX512DQ", __builtin_cpu_supports("avx512dq")},
                                                   {"AVX512VL", __builtin_cpu_supports("avx512vl")}};
    for (const auto& [name, present] : needed) {
        if (!present) return std::string("this CPU or its operating system lacks ") + name;
    }
    return "";
}

const VectorCode& named(const std::string& name) {
    for (const VectorCode* code : {&avx2::kVectorCode, &avx512::kVectorCode}) {
        if (name == code->isa) return *code;
    }
    fail(ErrorKind::invalid_argument, std::string(kVariable) + " is '" + name +
                                          "', which is no instruction set; set it to avx2 or avx512, or leave it out");
}

const VectorCode& forced(const std::string& name) {
    const VectorCode& code = named(name);
    const std::string why = &code == &avx512::kVectorCode ? avx512_refusal() : "";
    if (!why.empty()) {
        fail(ErrorKind::runtime_unavailable,
             std::string(kVariable) + " is 'avx512', but " + why + "; set it to avx2, or leave it out");
    }
    return code;
}

struct Choice {
    const VectorCode& code;
    std::string reason;  // why it is none better
};

Choice choose() {
    __builtin_cpu_init();
    if (!has_avx2()) {
        fail(ErrorKind::runtime_unavailable, "this CPU lacks AVX2, FMA or F16C, which dnnl_graph_ops needs");
    }
    const std::string name = variable(kVariable);
    if (!name.empty()) {
        const VectorCode& code = forced(name);
        return {code, &code == &avx512::kVectorCode ? "" : std::string(kVariable) + " is " + name};
    }
    const std::string limited = limit(), why = limited.empty() ? avx512_refusal() : limited;
    return {why.empty() ? avx512::kVectorCode : avx2::kVectorCode, why};
}

const Choice& choice() {
    static const Choice chosen = choose();
    return chosen;
}

}  // namespace

const VectorCode& vector_code() { return choice().code; }

const std::string& vector_reason() { return choice().reason; }

BlockFn copy_block(BlockKind kind, Cell src, Cell dst) { return vector_code().copy.block(kind, src, dst); }

const VectorCode& vector_code_of(const std::string& isa) { return isa.empty() ? vector_code() : named(isa); }

const Declaration kIsa[] = {
    {"isa()", +[] { return std::string(vector_code().isa); }, "The instruction set in use: 'avx2' or 'avx512'."},
    {"isa_reason()", +[] { return vector_reason(); }, "Why that is not a wider one, or ''."},
};

}  // namespace dgo
