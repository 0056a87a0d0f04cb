#include "kernels/cpu.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace dgo {

namespace avx512 {
extern const bool kEmulated;  // made of AVX2 instructions
}

namespace {

// Whether, in tests, a handler of signals does what this CPU lacks of AMX, AVX512-BF16 and VNNI.
bool trapped() {
#ifdef DGO_TEST_SETS
    return !variable("DNNL_GRAPH_OPS_TRAPPED").empty();
#else
    return false;
#endif
}

std::string lacking(const char* what) { return std::string("this CPU lacks ") + what; }

// Tiles are asked for once, for all threads of the process.
std::string tiles_refusal() {
    if (!__builtin_cpu_supports("amx-tile")) return lacking("AMX");
#ifdef SYS_arch_prctl
    constexpr int kRequestPermission = 0x1023, kTileData = 18;
    static const long refused = syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0 ? 0 : errno;
    if (refused == 0) return "";
    return std::string("the operating system refuses tiles: ") + std::strerror(static_cast<int>(refused));
#else
    return "this operating system knows no tiles";
#endif
}

std::string avx512_refusal() {
    if (!__builtin_cpu_supports("avx512f")) return lacking("AVX512F");
    if (!__builtin_cpu_supports("avx512bw")) return lacking("AVX512BW");
    if (!__builtin_cpu_supports("avx512dq")) return lacking("AVX512DQ");
    return __builtin_cpu_supports("avx512vl") ? "" : lacking("AVX512VL");
}

// Whether the CPU runs 512-bit code that needs these instructions as well.
std::string wide_refusal(bool has, const char* what) {
    return (has || trapped()) && avx512_refusal().empty() ? "" : lacking(what);
}

std::string tiled_refusal(const std::string& beside, bool has, const char* what) {
    if (!beside.empty()) return beside;
    if (has) return tiles_refusal();
    return trapped() ? "" : lacking(what);
}

std::string upper(std::string name) {
    for (char& letter : name) {
        if (letter >= 'a' && letter <= 'z') letter = static_cast<char>(letter - 'a' + 'A');
    }
    return name;
}

constexpr unsigned bit(Needs needs) { return 1u << static_cast<int>(needs); }

// By name of a limit, the instructions that it allows: none has tiles. Other names allow all.
struct Limit {
    const char* set;
    unsigned allowed;
};
constexpr unsigned kShort = bit(Needs::short_byte_quads), kWide = bit(Needs::avx512),
                   kQuads = kWide | kShort | bit(Needs::byte_quads), kPairs = kQuads | bit(Needs::bf16_pairs);
constexpr Limit kLimits[] = {
    {"SSE41", 0},
    {"AVX", 0},
    {"AVX2", 0},
    {"AVX2_VNNI", kShort},
    {"AVX2_VNNI_2", kShort},
    {"AVX512_CORE", kWide},
    {"AVX512_CORE_VNNI", kQuads},
    {"AVX512_CORE_BF16", kPairs},
    {"AVX512_CORE_FP16", kPairs},
    {"AVX10_1_512", kPairs},
};

}  // namespace

std::string variable(const char* name) {
    const char* value = std::getenv(name);
    return value == nullptr ? "" : value;
}

// These builtins also ask whether the operating system saves the registers.
std::string refusal(Needs needs) {
    __builtin_cpu_init();
    switch (needs) {
        case Needs::avx2:
            return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c")
                       ? ""
                       : lacking("AVX2, FMA or F16C");
        case Needs::avx512: return avx512::kEmulated ? "" : avx512_refusal();
        case Needs::bf16_pairs: return wide_refusal(__builtin_cpu_supports("avx512bf16"), "AVX512-BF16");
        case Needs::byte_quads: return wide_refusal(__builtin_cpu_supports("avx512vnni"), "AVX512-VNNI");
        case Needs::short_byte_quads: return trapped() || __builtin_cpu_supports("avxvnni") ? "" : lacking("AVX-VNNI");
        case Needs::bf16_tiles:
            return tiled_refusal(refusal(Needs::bf16_pairs), __builtin_cpu_supports("amx-bf16"), "AMX-BF16");
        case Needs::byte_tiles:
            return tiled_refusal(refusal(Needs::byte_quads), __builtin_cpu_supports("amx-int8"), "AMX-INT8");
        case Needs::test_sets: break;
    }
#ifdef DGO_TEST_SETS
    return "";
#else
    return "this build lacks the emulated sets, which DGO_TEST_SETS=ON builds";
#endif
}

std::string limit(Needs needs) {
    if (needs == Needs::avx2) return "";
    if (needs != Needs::avx512 && variable("DNNL_GRAPH_OPS_ISA") == "avx2") return "DNNL_GRAPH_OPS_ISA is avx2";
    for (const char* name : {"ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA"}) {  // the second is oneDNN's older one
        const std::string set = upper(variable(name));
        if (set.empty()) continue;
        for (const Limit& limit : kLimits) {
            if (set == limit.set) return limit.allowed & bit(needs) ? "" : std::string(name) + " is " + set;
        }
        return "";
    }
    return "";
}

}  // namespace dgo
