#include "kernels/integer/isa.hpp"

#include <string>

#include "common/error.hpp"
#include "kernels/narrow/isa.hpp"

namespace dgo {

namespace avx512vnni {
extern const IntegerCode kIntegerCode;
}
namespace avx2words {
extern const IntegerCode kIntegerCode;
}
namespace emulatedint8 {
extern const IntegerCode kIntegerCode;
}

namespace {

constexpr const char* kVariable = "DNNL_GRAPH_OPS_INT8";
constexpr const char* kSets = "avx512vnni, avx2words, emulatedint8 or none";

// Empty: the set runs here. The other sets need no more than all of this package does.
std::string quads_refusal() {
    __builtin_cpu_init();
    const bool has = __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512bw") &&
                     __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    return has ? "" : "this CPU lacks AVX512-VNNI";
}

const IntegerCode& named(const std::string& name) {
    for (const IntegerCode* code : {&avx512vnni::kIntegerCode, &avx2words::kIntegerCode, &emulatedint8::kIntegerCode}) {
        if (name != code->isa) continue;
        const std::string why = code == &avx512vnni::kIntegerCode ? quads_refusal() : "";
        if (why.empty()) return *code;
        fail(ErrorKind::runtime_unavailable, "integer products by '" + name + "' do not run here: " + why + "; set " +
                                                 kVariable + " to another of " + kSets + ", or leave it out");
    }
    fail(ErrorKind::invalid_argument, std::string(kVariable) + " is '" + name +
                                          "', which is no instruction set of integer products; set it to " + kSets +
                                          ", or leave it out");
}

struct Choice {
    const IntegerCode* code = nullptr;
    std::string reason;
};

Choice choose() {
    const std::string name = variable(kVariable);
    if (name == "none") return {nullptr, std::string(kVariable) + " is none"};
    if (!name.empty()) return {&named(name), ""};
    const IsaLimit allowed = isa_limit();
    const std::string lacking = allowed.quads ? quads_refusal() : allowed.said;
    return {lacking.empty() ? &avx512vnni::kIntegerCode : &avx2words::kIntegerCode, lacking};
}

const Choice& choice() {
    static const Choice chosen = choose();
    return chosen;
}

}  // namespace

const IntegerCode* integer_code() { return choice().code; }

const std::string& integer_reason() { return choice().reason; }

const IntegerCode& integer_code_of(const std::string& name) {
    if (!name.empty()) return named(name);
    if (integer_code() == nullptr) {
        fail(ErrorKind::runtime_unavailable, "there are no integer products here: " + integer_reason());
    }
    return *integer_code();
}

}  // namespace dgo
