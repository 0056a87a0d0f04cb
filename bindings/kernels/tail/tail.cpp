#include "kernels/tail/tail.hpp"

#include <algorithm>
#include <numeric>

#include "common/error.hpp"
#include "kernels/checked.hpp"
#include "kernels/declaration.hpp"

namespace dgo {
namespace {

constexpr const char* kName = "kernels.Tail";

struct OpRow {
    const char* name;
    TailOp op;
    bool binary;
};

constexpr OpRow kOps[] = {
#define UNARY(name, ...) {#name, TailOp::name, false},
#define BINARY(name, ...) {#name, TailOp::name, true},
#define OTHER UNARY
#include "kernels/tail/ops.inc"
#undef UNARY
#undef BINARY
#undef OTHER
};

struct SpreadRow {
    const char* name;
    TailSpread spread;
    bool vector;  // of channels, which are f32
};

constexpr SpreadRow kSpreads[] = {
    {"one", TailSpread::one, false},     {"channel", TailSpread::channel, true},
    {"full", TailSpread::full, false},   {"image_channel", TailSpread::image_channel, true},
    {"pixel", TailSpread::pixel, false},
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

TailOperand operand_of(const TailOperandSpec& spec) {
    const SpreadRow& row = row_of(kSpreads, spec.spread, "spread");
    const Cell cell = float_cell(spec.dtype);
    if (row.vector && cell != Cell::f32) {
        fail(ErrorKind::invalid_argument, std::string(kName) + ": an operand of spread '" + row.name +
                                              "' is data type " + std::to_string(spec.dtype) + "; convert it to f32");
    }
    return {row.spread, cell};
}

}  // namespace

std::vector<TailStep> tail_steps(const std::vector<TailStepSpec>& specs, size_t operands, bool begun) {
    check_number(kName, "the number of operands", static_cast<int64_t>(operands), 0, INT16_MAX - kTailOperands);
    std::vector<TailStep> steps;
    bool written[kTailRegisters] = {begun};
    const auto check_source = [&](const TailStepSpec& spec, int64_t number) {
        const bool known = number >= kTailOperands ? number - kTailOperands < static_cast<int64_t>(operands)
                                                   : number >= 0 && number < kTailRegisters && written[number];
        if (known) return;
        fail(ErrorKind::invalid_argument,
             std::string(kName) + ": step " + std::to_string(steps.size()) + " ('" + spec.op + "') reads " +
                 std::to_string(number) + ", which is neither a register written before nor one of the " +
                 std::to_string(operands) + " operands, numbered from " + std::to_string(kTailOperands));
    };
    for (const TailStepSpec& spec : specs) {
        const OpRow& row = row_of(kOps, spec.op, "op");
        check_source(spec, spec.left);
        if (row.binary) check_source(spec, spec.right);
        check_number(kName, "the number of a register that is written", spec.to, 0, kTailRegisters - 1);
        written[spec.to] = true;
        steps.push_back({row.op, static_cast<int16_t>(spec.left),
                         static_cast<int16_t>(row.binary ? spec.right : spec.left), static_cast<int16_t>(spec.to),
                         static_cast<float>(spec.alpha), static_cast<float>(spec.beta)});
    }
    return steps;
}

Tail::Tail(const std::vector<TailStepSpec>& steps, const std::vector<TailOperandSpec>& operands)
    : steps_(tail_steps(steps, operands.size(), true)) {
    for (const TailOperandSpec& spec : operands) operands_.push_back(operand_of(spec));
}

bool Tail::alike() const {
    return std::all_of(operands_.begin(), operands_.end(),
                       [](const TailOperand& operand) { return operand.spread == TailSpread::one; });
}

TailParams Tail::params(int64_t channels, const std::vector<int64_t>& sizes,
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
    for (const TailOperand& operand : operands_) {
        const bool fits = operand.spread == TailSpread::pixel           ? pixel_pitch >= channels
                          : operand.spread == TailSpread::image_channel ? image_extent + channels <= image_pitch
                                                                        : true;
        if (fits) continue;
        fail(ErrorKind::invalid_argument,
             std::string(kName) + ": dst has strides with which an operand for each position, or for each image, has " +
                 "no place of its own; expand it to all of dst");
    }
    const bool by_channel = std::any_of(operands_.begin(), operands_.end(), [](const TailOperand& operand) {
        return operand.spread == TailSpread::channel || operand.spread == TailSpread::image_channel;
    });
    return {steps_.data(), static_cast<int64_t>(steps_.size()), operands_.data(), channels, pixel_pitch, image_pitch,
            by_channel};
}

Finish finish_of(const TailParams& params) {
    if (params.count != 1 || params.steps->left != 0) return {};
    const TailStep& step = *params.steps;
    const auto as = [&](Finish::As how) { return Finish{how, step.alpha, step.beta}; };
    switch (step.op) {
        case TailOp::relu: return as(Finish::As::relu);
        case TailOp::clamp: return as(Finish::As::clamp);
        case TailOp::hardswish: return as(Finish::As::hardswish);
        case TailOp::leaky_relu: return as(Finish::As::leaky_relu);
        default: return {};
    }
}

std::vector<TailStepSpec> tail_step_specs(const std::vector<TailStepTuple>& steps) {
    std::vector<TailStepSpec> specs;
    for (const auto& [op, left, right, to, alpha, beta] : steps) specs.push_back({op, left, right, to, alpha, beta});
    return specs;
}

namespace {

Tail make_tail(const std::vector<TailStepTuple>& steps, const std::vector<std::pair<std::string, int>>& operands) {
    std::vector<TailOperandSpec> specs;
    for (const auto& [spread, dtype] : operands) specs.push_back({spread, dtype});
    return Tail(tail_step_specs(steps), specs);
}

}  // namespace

const Declaration kTails[] = {
    {"Tail(steps=(), operands=())", make_tail,
     "Post-ops: steps (op, left, right, to, alpha, beta) on registers, of which 0 is the value that is written, and "
     "operands, numbered from OPERANDS; operands are (spread, data type)."},
    {"Tail.REGISTERS", +[] { return int64_t{kTailRegisters}; }, "Registers that steps have."},
    {"Tail.OPERANDS", +[] { return int64_t{kTailOperands}; }, "The number of the first operand."},
    {"Tail.REPEAT", +[] { return int64_t{kTailRepeat}; },
     "Elements that operands by channel go on for behind the last channel, beginning again with the first."},
    {"Tail.__bool__(self)", +[](const Tail& tail) { return !tail.empty(); }, "Whether there are any steps."},
    {"Tail.operands", +[](const Tail& tail) { return tail.operands(); }, "How many it adds to a kernel's operands."},
};

}  // namespace dgo
