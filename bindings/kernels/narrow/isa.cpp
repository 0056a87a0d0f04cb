#include "kernels/narrow/isa.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>

#include "common/error.hpp"

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
#endif

namespace {

constexpr const char* kVariable = "DNNL_GRAPH_OPS_NARROW";

std::string permission_refusal() {
#ifdef SYS_arch_prctl
    constexpr int kRequestPermission = 0x1023, kTileData = 18;
    if (syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0) return "";
    return std::string("the operating system refuses tiles: ") + std::strerror(errno);
#else
    return "this operating system knows no tiles";
#endif
}

// Empty: the set runs here. These ask whether the operating system saves the registers, too.
std::string pairs_refusal() {
    __builtin_cpu_init();
    const bool has = avx512_is_whole() && (trapped() || __builtin_cpu_supports("avx512bf16"));
    return has ? "" : "this CPU lacks AVX512-BF16";
}

std::string amx_refusal() {
    const std::string lacking = pairs_refusal();
    if (!lacking.empty() || trapped()) return lacking;
    return __builtin_cpu_supports("amx-bf16") ? tiles_refusal() : "this CPU lacks AMX-BF16";
}

#ifdef DGO_TEST_SETS
constexpr const NarrowCode* kEmulated = &emulated::kNarrowCode;
#else
constexpr const NarrowCode* kEmulated = nullptr;
#endif

struct Row {
    const char* name;
    const NarrowCode* code;
    std::string (*refusal)();
};
const Row kRows[] = {
    {"amx", &amx::kNarrowCode, amx_refusal},
    {"avx512bf16", &avx512bf16::kNarrowCode, pairs_refusal},
    {"emulated", kEmulated, test_sets_refusal},
};

const NarrowCode& named(const std::string& name) {
    for (const Row& row : kRows) {
        if (name != row.name) continue;
        const std::string why = row.refusal();
        if (why.empty()) return *row.code;
        fail(ErrorKind::runtime_unavailable, "narrow products by '" + name + "' do not run here: " + why + "; set " +
                                                 kVariable + " to another set or none, or leave it out");
    }
    fail(ErrorKind::invalid_argument, std::string(kVariable) + " is '" + name +
                                          "', which is no instruction set of narrow products; set it to amx, "
                                          "avx512bf16, emulated or none, or leave it out");
}

struct Choice {
    const NarrowCode* code = nullptr;
    std::string reason;
};

Choice choose() {
    const std::string name = variable(kVariable);
    if (name == "none") return {nullptr, std::string(kVariable) + " is none"};
    if (!name.empty()) return {&named(name), ""};
    const IsaLimit allowed = isa_limit();
    if (!allowed.pairs) return {nullptr, allowed.said};
    const std::string tiles = allowed.tiles ? amx_refusal() : allowed.said;
    if (tiles.empty()) return {&amx::kNarrowCode, ""};
    const std::string pairs = pairs_refusal();
    return {pairs.empty() ? &avx512bf16::kNarrowCode : nullptr, pairs.empty() ? tiles : pairs};
}

const Choice& choice() {
    static const Choice chosen = choose();
    return chosen;
}

}  // namespace

bool trapped() {
#ifdef DGO_TEST_SETS
    return !variable("DNNL_GRAPH_OPS_TRAPPED").empty();
#else
    return false;
#endif
}

bool avx512_is_whole() {
    return __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl");
}

const std::string& tiles_refusal() {
    static const std::string refusal = [] {
        __builtin_cpu_init();
        return __builtin_cpu_supports("amx-tile") ? permission_refusal() : "this CPU lacks AMX";
    }();
    return refusal;
}

std::string test_sets_refusal() {
#ifdef DGO_TEST_SETS
    return "";
#else
    return "this build lacks the emulated sets, which DGO_TEST_SETS=ON builds";
#endif
}

std::string variable(const char* name) {
    const char* value = std::getenv(name);
    return value == nullptr ? "" : value;
}

IsaLimit isa_limit() {
    if (variable("DNNL_GRAPH_OPS_ISA") == "avx2") return {"DNNL_GRAPH_OPS_ISA is avx2", false, false, false, false};
    std::string name = variable("ONEDNN_MAX_CPU_ISA");
    if (name.empty()) name = variable("DNNL_MAX_CPU_ISA");  // oneDNN's older name
    for (char& letter : name) {
        if (letter >= 'a' && letter <= 'z') letter = static_cast<char>(letter - 'a' + 'A');
    }
    const std::string said = "ONEDNN_MAX_CPU_ISA is " + name;
    struct Limit {
        const char* set;
        bool pairs, quads, short_quads;
    };
    constexpr Limit kLimits[] = {
        {"SSE41", false, false, false},          {"AVX", false, false, false},
        {"AVX2", false, false, false},           {"AVX2_VNNI", false, false, true},
        {"AVX2_VNNI_2", false, false, true},     {"AVX512_CORE", false, false, false},
        {"AVX512_CORE_VNNI", false, true, true}, {"AVX512_CORE_BF16", true, true, true},
        {"AVX512_CORE_FP16", true, true, true},  {"AVX10_1_512", true, true, true},
    };
    for (const Limit& limit : kLimits) {
        if (name == limit.set) return {said, limit.pairs, false, limit.quads, limit.short_quads};
    }
    return {};
}

const NarrowCode* narrow_code() { return choice().code; }

const std::string& narrow_reason() { return choice().reason; }

const NarrowCode& narrow_code_of(const std::string& name) {
    if (!name.empty()) return named(name);
    if (narrow_code() == nullptr) {
        fail(ErrorKind::runtime_unavailable, "there are no narrow products here: " + narrow_reason());
    }
    return *narrow_code();
}

}  // namespace dgo
