#include "kernels/integer/isa.hpp"

#include <string>

#include "common/error.hpp"
#include "kernels/narrow/isa.hpp"

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
#endif

namespace {

constexpr const char* kVariable = "DNNL_GRAPH_OPS_INT8";

// Empty: the set runs here.
std::string nothing() { return ""; }

std::string short_quads_refusal() {
    __builtin_cpu_init();
    return trapped() || __builtin_cpu_supports("avxvnni") ? "" : "this CPU lacks AVX-VNNI";
}

std::string quads_refusal() {
    __builtin_cpu_init();
    const bool has = avx512_is_whole() && (trapped() || __builtin_cpu_supports("avx512vnni"));
    return has ? "" : "this CPU lacks AVX512-VNNI";
}

std::string tiles_of_integers_refusal() {
    const std::string lacking = quads_refusal();
    if (!lacking.empty() || trapped()) return lacking;
    return __builtin_cpu_supports("amx-int8") ? tiles_refusal() : "this CPU lacks AMX-INT8";
}

#ifdef DGO_TEST_SETS
constexpr const IntegerCode *kEmulatedTiles = &emulatedint8tiles::kIntegerCode,
                            *kEmulated = &emulatedint8::kIntegerCode;
#else
constexpr const IntegerCode *kEmulatedTiles = nullptr, *kEmulated = nullptr;
#endif

// In the order of preference; the emulated ones are used by their names only.
struct Row {
    const char* name;
    const IntegerCode* code;
    std::string (*refusal)();
    bool IsaLimit::* allowed;
};
const Row kRows[] = {
    {"amxint8", &amxint8::kIntegerCode, tiles_of_integers_refusal, &IsaLimit::tiles},
    {"avx512vnni", &avx512vnni::kIntegerCode, quads_refusal, &IsaLimit::quads},
    {"avxvnni", &avxvnni::kIntegerCode, short_quads_refusal, &IsaLimit::short_quads},
    {"avx2words", &avx2words::kIntegerCode, nothing, nullptr},
    {"emulatedint8tiles", kEmulatedTiles, test_sets_refusal, nullptr},
    {"emulatedint8", kEmulated, test_sets_refusal, nullptr},
};

std::string all_sets() {
    std::string sets;
    for (const Row& row : kRows) sets += std::string(row.name) + ", ";
    return sets + "or none";
}

const IntegerCode& named(const std::string& name) {
    for (const Row& row : kRows) {
        if (name != row.name) continue;
        const std::string why = row.refusal();
        if (why.empty()) return *row.code;
        fail(ErrorKind::runtime_unavailable, "integer products by '" + name + "' do not run here: " + why + "; set " +
                                                 kVariable + " to another of " + all_sets() + ", or leave it out");
    }
    fail(ErrorKind::invalid_argument, std::string(kVariable) + " is '" + name +
                                          "', which is no instruction set of integer products; set it to " +
                                          all_sets() + ", or leave it out");
}

struct Choice {
    const IntegerCode* code = nullptr;
    std::string reason;  // of the set before
};

Choice choose() {
    const std::string name = variable(kVariable);
    if (name == "none") return {nullptr, std::string(kVariable) + " is none"};
    if (!name.empty()) return {&named(name), ""};
    const IsaLimit allowed = isa_limit();
    std::string reason;
    for (const Row& row : kRows) {
        const bool may = row.allowed == nullptr || allowed.*row.allowed;
        const std::string lacking = may ? row.refusal() : allowed.said;
        if (lacking.empty()) return {row.code, reason};
        reason = lacking;
    }
    return {nullptr, reason};
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
