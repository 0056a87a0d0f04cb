#include "kernels/epilogue/epilogue.hpp"

#include <algorithm>
#include <numeric>

#include "common/error.hpp"
#include "kernels/checked.hpp"
#include "kernels/declaration.hpp"

namespace dgo {
namespace {

constexpr const char* kName = "kernels.Epilogue";

struct OpRow {
    const char* name;
    EpilogueOp op;
    bool binary;
};

constexpr OpRow kOps[] = {
#define UNARY(name, ...) {#name, EpilogueOp::name, false},
#define BINARY(name, ...) {#name, EpilogueOp::name, true},
#define OTHER UNARY
#include "kernels/epilogue/ops.inc"
#undef UNARY
#undef BINARY
#undef OTHER
};

struct SpreadRow {
    const char* name;
    EpilogueSpread spread;
    bool vector;  // one f32 for each channel
};

constexpr SpreadRow kSpreads[] = {
    {"one", EpilogueSpread::one, false},     {"channel", EpilogueSpread::channel, true},
    {"full", EpilogueSpread::full, false},   {"image_channel", EpilogueSpread::image_channel, true},
    {"pixel", EpilogueSpread::pixel, false},
};

template <class Row, size_t kCount>
const Row& row_of(const Row (&rows)[kCount], const std::string& name, const char* what) {
    for (const Row& row : rows) {
        if (name == row.name) return row;
    }
    std::string known;
    for (const Row& row : rows) known += std::string(known.empty() ? "" : ", ") + row.name;
    fail(ErrorKind::invalid_argument,
         std::string(kName) + ": there is no " + what + " '" + name + "'; known: " + known);
}

EpilogueOperand operand_of(const EpilogueOperandSpec& spec) {
    const SpreadRow& row = row_of(kSpreads, spec.spread, "spread");
    const ElementType type = float_type(spec.dtype);
    if (row.vector && type != ElementType::f32) {
        fail(ErrorKind::invalid_argument, std::string(kName) + ": an operand of spread '" + row.name +
                                              "' is data type " + std::to_string(spec.dtype) + "; convert it to f32");
    }
    return {row.spread, type};
}

}  // namespace

std::vector<EpilogueStep> epilogue_steps(const std::vector<EpilogueStepSpec>& specs, size_t operands, bool begun) {
    check_number(kName, "the number of operands", static_cast<int64_t>(operands), 0, INT16_MAX - kEpilogueOperands);
    std::vector<EpilogueStep> steps;
    bool written[kEpilogueRegisters] = {begun};
    const auto check_source = [&](const EpilogueStepSpec& spec, int64_t number) {
        const bool known = number >= kEpilogueOperands ? number - kEpilogueOperands < static_cast<int64_t>(operands)
                                                       : number >= 0 && number < kEpilogueRegisters && written[number];
        if (known) return;
        fail(ErrorKind::invalid_argument,
             std::string(kName) + ": step " + std::to_string(steps.size()) + " ('" + spec.op + "') reads " +
                 std::to_string(number) + ", which is neither a register written before nor one of the " +
                 std::to_string(operands) + " operands, numbered from " + std::to_string(kEpilogueOperands));
    };
    for (const EpilogueStepSpec& spec : specs) {
        const OpRow& row = row_of(kOps, spec.op, "op");
        check_source(spec, spec.left);
        if (row.binary) check_source(spec, spec.right);
        check_number(kName, "the number of a register that is written", spec.to, 0, kEpilogueRegisters - 1);
        written[spec.to] = true;
        steps.push_back({row.op, static_cast<int16_t>(spec.left),
                         static_cast<int16_t>(row.binary ? spec.right : spec.left), static_cast<int16_t>(spec.to),
                         static_cast<float>(spec.alpha), static_cast<float>(spec.beta)});
    }
    return steps;
}

Epilogue::Epilogue(const std::vector<EpilogueStepSpec>& steps, const std::vector<EpilogueOperandSpec>& operands)
    : steps_(epilogue_steps(steps, operands.size(), true)) {
    for (const EpilogueOperandSpec& spec : operands) operands_.push_back(operand_of(spec));
}

bool Epilogue::alike() const {
    return std::all_of(operands_.begin(), operands_.end(),
                       [](const EpilogueOperand& operand) { return operand.spread == EpilogueSpread::one; });
}

EpilogueParams Epilogue::params(int64_t channels, const std::vector<int64_t>& sizes,
                                const std::vector<int64_t>& strides) const {
    check_number(kName, "channels", channels, 0, kMostSize);
    if (sizes.empty() || sizes.size() != strides.size()) {
        fail(ErrorKind::invalid_argument, std::string(kName) + ": there are " + std::to_string(sizes.size()) +
                                              " sizes and " + std::to_string(strides.size()) +
                                              " strides; as many are needed, and those of the images first");
    }
    check_extent(kName, "dst", sizes, strides);
    int64_t pixel_pitch = 0, image_extent = 0;
    for (size_t axis = 0; axis < sizes.size(); ++axis) {
        if (sizes[axis] < 2) continue;
        pixel_pitch = std::gcd(pixel_pitch, strides[axis]);
        if (axis > 0) image_extent += (sizes[axis] - 1) * strides[axis];
    }
    if (pixel_pitch == 0) pixel_pitch = std::max<int64_t>(channels, 1);
    const int64_t image_pitch = sizes[0] > 1 ? strides[0] : kMostElements + 1;
    for (const EpilogueOperand& operand : operands_) {
        const bool fits = operand.spread == EpilogueSpread::pixel           ? pixel_pitch >= channels
                          : operand.spread == EpilogueSpread::image_channel ? image_extent + channels <= image_pitch
                                                                            : true;
        if (fits) continue;
        fail(ErrorKind::invalid_argument,
             std::string(kName) + ": dst has strides with which an operand for each position, or for each image, has " +
                 "no place of its own; expand it to all of dst");
    }
    const bool by_channel = std::any_of(operands_.begin(), operands_.end(), [](const EpilogueOperand& operand) {
        return operand.spread == EpilogueSpread::channel || operand.spread == EpilogueSpread::image_channel;
    });
    return {steps_.data(), static_cast<int64_t>(steps_.size()), operands_.data(), channels, pixel_pitch, image_pitch,
            by_channel};
}

FusedActivation fused_activation_of(const EpilogueParams& params) {
    if (params.count != 1 || params.steps->left != 0) return {};
    const EpilogueStep& step = *params.steps;
    const auto as = [&](FusedActivation::As how) { return FusedActivation{how, step.alpha, step.beta}; };
    switch (step.op) {
        case EpilogueOp::relu: return as(FusedActivation::As::relu);
        case EpilogueOp::clamp: return as(FusedActivation::As::clamp);
        case EpilogueOp::hardswish: return as(FusedActivation::As::hardswish);
        case EpilogueOp::leaky_relu: return as(FusedActivation::As::leaky_relu);
        default: return {};
    }
}

std::vector<EpilogueStepSpec> epilogue_step_specs(const std::vector<EpilogueStepTuple>& steps) {
    std::vector<EpilogueStepSpec> specs;
    for (const auto& [op, left, right, to, alpha, beta] : steps) specs.push_back({op, left, right, to, alpha, beta});
    return specs;
}

namespace {

Epilogue make_epilogue(const std::vector<EpilogueStepTuple>& steps,
                       const std::vector<std::pair<std::string, int>>& operands) {
    std::vector<EpilogueOperandSpec> specs;
    for (const auto& [spread, dtype] : operands) specs.push_back({spread, dtype});
    return Epilogue(epilogue_step_specs(steps), specs);
}

}  // namespace

const Declaration kEpilogues[] = {
    {"Epilogue(steps=(), operands=())", make_epilogue,
     "Post-ops: steps (op, left, right, to, alpha, beta) on registers, of which 0 is the value that is written, and on "
     "operands, numbered from OPERANDS. Operands are (spread, data type)."},
    {"Epilogue.REGISTERS", +[] { return int64_t{kEpilogueRegisters}; }, "Registers that steps have."},
    {"Epilogue.OPERANDS", +[] { return int64_t{kEpilogueOperands}; }, "The number of the first operand."},
    {"Epilogue.REPEAT", +[] { return int64_t{kEpilogueRepeat}; },
     "Elements that operands by channel go on for behind the last channel, beginning again with the first."},
    {"Epilogue.__bool__(self)", +[](const Epilogue& epilogue) { return !epilogue.empty(); },
     "Whether there are any steps."},
    {"Epilogue.operands", +[](const Epilogue& epilogue) { return epilogue.operands(); },
     "How many it adds to a kernel's operands."},
};

}  // namespace dgo
