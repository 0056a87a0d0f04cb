#include "kernels/sets.hpp"

#include "common/error.hpp"
#include "kernels/declaration.hpp"
#include "kernels/isa.hpp"

namespace dgo {

#define DGO_SET(name, Code, code)                 \
    namespace name {                              \
    extern const Code code __attribute__((weak)); \
    }
DGO_SET(avx2, VectorCode, kVectorCode)
DGO_SET(avx512, VectorCode, kVectorCode)
DGO_SET(amx, Dot, kDot)
DGO_SET(avx512bf16, Dot, kDot)
DGO_SET(amxint8, Dot, kDot)
DGO_SET(avx512vnni, Dot, kDot)
DGO_SET(avxvnni, Dot, kDot)
DGO_SET(avx2words, Dot, kDot)
DGO_SET(emulated, Dot, kDot)
DGO_SET(emulatedint8tiles, Dot, kDot)
DGO_SET(emulatedint8, Dot, kDot)

namespace {

const Sets<VectorCode>& vector_sets() {
    static const Sets<VectorCode> sets(
        "builtin kernels", "DNNL_GRAPH_OPS_ISA",
        {{&avx512::kVectorCode, "avx512", Needs::avx512}, {&avx2::kVectorCode, "avx2", Needs::avx2}});
    return sets;
}

}  // namespace

const Sets<Dot>& bf16_sets() {
    static const Sets<Dot> sets("narrow products", "DNNL_GRAPH_OPS_NARROW",
                                {{&amx::kDot, "amx", Needs::bf16_tiles},
                                 {&avx512bf16::kDot, "avx512bf16", Needs::bf16_pairs},
                                 {&emulated::kDot, "emulated", Needs::test_sets}});
    return sets;
}

const Sets<Dot>& int8_sets() {
    static const Sets<Dot> sets("integer products", "DNNL_GRAPH_OPS_INT8",
                                {{&amxint8::kDot, "amxint8", Needs::byte_tiles},
                                 {&avx512vnni::kDot, "avx512vnni", Needs::byte_quads},
                                 {&avxvnni::kDot, "avxvnni", Needs::short_byte_quads},
                                 {&avx2words::kDot, "avx2words", Needs::avx2},
                                 {&emulatedint8tiles::kDot, "emulatedint8tiles", Needs::test_sets},
                                 {&emulatedint8::kDot, "emulatedint8", Needs::test_sets}});
    return sets;
}

SetTable::SetTable(const char* kind, const char* variable_name, std::vector<Row> rows)
    : kind_(kind), variable_(variable_name), rows_(std::move(rows)) {
    const std::string name = variable(variable_name);
    if (!name.empty()) {
        if (name != "none") {
            of(name);  // it runs
            chosen_ = &named(name);
        }
        if (chosen_ != &rows_[0]) reason_ = std::string(variable_name) + " is " + name;
        return;
    }
    for (const Row& row : rows_) {
        if (row.needs == Needs::test_sets) break;
        std::string lacking = limit(row.needs);
        if (lacking.empty()) lacking = refusal(row.needs);
        if (lacking.empty()) {
            chosen_ = &row;
            return;
        }
        reason_ = lacking;
    }
}

const void* SetTable::of(const std::string& name) const {
    if (name.empty()) {
        if (chosen_ != nullptr) return chosen_->code;
        fail(ErrorKind::runtime_unavailable, std::string("there are no ") + kind_ + " here: " + reason_);
    }
    const Row& row = named(name);
    const std::string why = refusal(row.needs);
    if (why.empty()) return row.code;
    fail(ErrorKind::runtime_unavailable, std::string(kind_) + " by '" + name + "' do not run here: " + why + "; set " +
                                             variable_ + " to another set or none, or leave it out");
}

const SetTable::Row& SetTable::named(const std::string& name) const {
    std::string all;
    for (const Row& row : rows_) {
        if (name == row.name) return row;
        all += std::string(row.name) + ", ";
    }
    fail(ErrorKind::invalid_argument, std::string(variable_) + " is '" + name + "', which is no instruction set of " +
                                          kind_ + "; set it to " + all + "or none, or leave it out");
}

const VectorCode& vector_code() {
    static const VectorCode& code = vector_sets().of("");
    return code;
}

std::string code_name(const std::string& operation, const char* isa, int64_t rows, int64_t columns) {
    return operation + "_" + isa + "_" + std::to_string(rows) + "x" + std::to_string(columns);
}

std::string dot_name(const Dot& dot) {
    return code_name(std::string("dot_") + dot.type, dot.isa, dot.rows, dot.columns);
}

const VectorCode& vector_code_of(const std::string& isa) {
    return isa.empty() ? vector_code() : *static_cast<const VectorCode*>(vector_sets().named(isa).code);
}

BlockFn copy_block(BlockKind kind, ElementType src, ElementType dst) {
    return vector_code().copy.block(kind, src, dst);
}

const Declaration kIsa[] = {
    {"isa()", +[] { return std::string(vector_code().isa); },
     "Returns the instruction set in use: 'avx2' or 'avx512'."},
    {"isa_reason()", +[] { return vector_sets().isa_and_reason().second; }, "Returns why no wider set is used, or ''."},
};

}  // namespace dgo
