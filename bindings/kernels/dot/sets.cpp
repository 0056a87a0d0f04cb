#include "kernels/dot/sets.hpp"

#include "common/error.hpp"

namespace dgo {

#define DGO_SET(name)                          \
    namespace name {                           \
    extern const Dot kDot __attribute__((weak)); \
    }
DGO_SET(amx)
DGO_SET(avx512bf16)
DGO_SET(amxint8)
DGO_SET(avx512vnni)
DGO_SET(avxvnni)
DGO_SET(avx2words)
DGO_SET(emulated)
DGO_SET(emulatedint8tiles)
DGO_SET(emulatedint8)

const DotSets& bf16_sets() {
    static const DotSets sets("narrow", "DNNL_GRAPH_OPS_NARROW",
                              {{&amx::kDot, "amx", Needs::bf16_tiles},
                               {&avx512bf16::kDot, "avx512bf16", Needs::bf16_pairs},
                               {&emulated::kDot, "emulated", Needs::test_sets}});
    return sets;
}

const DotSets& int8_sets() {
    static const DotSets sets("integer", "DNNL_GRAPH_OPS_INT8",
                              {{&amxint8::kDot, "amxint8", Needs::byte_tiles},
                               {&avx512vnni::kDot, "avx512vnni", Needs::byte_quads},
                               {&avxvnni::kDot, "avxvnni", Needs::short_byte_quads},
                               {&avx2words::kDot, "avx2words", Needs::avx2},
                               {&emulatedint8tiles::kDot, "emulatedint8tiles", Needs::test_sets},
                               {&emulatedint8::kDot, "emulatedint8", Needs::test_sets}});
    return sets;
}

DotSets::DotSets(const char* kind, const char* variable_name, std::vector<Row> rows)
    : kind_(kind), variable_(variable_name), rows_(std::move(rows)) {
    const std::string isa = variable(variable_name);
    if (isa == "none") {
        reason_ = std::string(variable_name) + " is none";
        return;
    }
    if (!isa.empty()) {
        chosen_ = &named(isa);
        return;
    }
    for (const Row& row : rows_) {
        if (row.needs == Needs::test_sets) break;
        std::string lacking = limit(row.needs);
        if (lacking.empty()) lacking = refusal(row.needs);
        if (lacking.empty()) {
            chosen_ = row.dot;
            return;
        }
        reason_ = lacking;
    }
}

const Dot& DotSets::of(const std::string& isa) const {
    if (!isa.empty()) return named(isa);
    if (chosen_ == nullptr) {
        fail(ErrorKind::runtime_unavailable, std::string("there are no ") + kind_ + " products here: " + reason_);
    }
    return *chosen_;
}

const Dot& DotSets::named(const std::string& isa) const {
    std::string all;
    for (const Row& row : rows_) {
        all += std::string(row.isa) + ", ";
        if (isa != row.isa) continue;
        const std::string why = refusal(row.needs);
        if (why.empty()) return *row.dot;
        fail(ErrorKind::runtime_unavailable, std::string(kind_) + " products by '" + isa + "' do not run here: " + why +
                                                 "; set " + variable_ + " to another set or none, or leave it out");
    }
    fail(ErrorKind::invalid_argument, std::string(variable_) + " is '" + isa + "', which is no instruction set of " +
                                          kind_ + " products; set it to " + all + "or none, or leave it out");
}

}  // namespace dgo
