#include "kernels/isa.hpp"

#include <string>

#include "common/error.hpp"
#include "kernels/copy/vtable.hpp"
#include "kernels/cpu.hpp"
#include "kernels/declaration.hpp"

namespace dgo {

namespace avx2 {
extern const VectorCode kVectorCode;
}  // namespace avx2
namespace avx512 {
extern const VectorCode kVectorCode;
}  // namespace avx512

namespace {

constexpr const char* kVariable = "DNNL_GRAPH_OPS_ISA";

const VectorCode& named(const std::string& name) {
    for (const VectorCode* code : {&avx2::kVectorCode, &avx512::kVectorCode}) {
        if (name == code->isa) return *code;
    }
    fail(ErrorKind::invalid_argument, std::string(kVariable) + " is '" + name +
                                          "', which is no instruction set; set it to avx2 or avx512, or leave it out");
}

const VectorCode& forced(const std::string& name) {
    const VectorCode& code = named(name);
    const std::string why = refusal(&code == &avx512::kVectorCode ? Needs::avx512 : Needs::avx2);
    if (!why.empty()) {
        fail(ErrorKind::runtime_unavailable,
             std::string(kVariable) + " is '" + name + "', but " + why + "; set it to avx2, or leave it out");
    }
    return code;
}

struct Choice {
    const VectorCode& code;
    std::string reason;  // why it is none better
};

Choice choose() {
    const std::string least = refusal(Needs::avx2);
    if (!least.empty()) fail(ErrorKind::runtime_unavailable, least + ", which dnnl_graph_ops needs");
    const std::string name = variable(kVariable);
    if (!name.empty()) {
        const VectorCode& code = forced(name);
        return {code, &code == &avx512::kVectorCode ? "" : std::string(kVariable) + " is " + name};
    }
    const std::string limited = limit(Needs::avx512), why = limited.empty() ? refusal(Needs::avx512) : limited;
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
