// Post-ops that a kernel applies to its results before they are rounded.
#pragma once

#include <string>
#include <tuple>
#include <vector>

#include "kernels/epilogue/vtable.hpp"

namespace dgo {

// A step by the name of its op; `right` is left out of account where the op has one operand.
struct EpilogueStepSpec {
    std::string op;
    int64_t left, right, to;
    double alpha, beta;
};

// The parts of a step as declarations read them.
using EpilogueStepTuple = std::tuple<std::string, int64_t, int64_t, int64_t, double, double>;
std::vector<EpilogueStepSpec> epilogue_step_specs(const std::vector<EpilogueStepTuple>& steps);

// An operand by the name of its spread and its data type.
struct EpilogueOperandSpec {
    std::string spread;
    int dtype;
};

class Epilogue {
public:
    static constexpr const char* kClass = "Epilogue";
    Epilogue() = default;
    // Throws unless every step reads what a step before it wrote, or an operand.
    Epilogue(const std::vector<EpilogueStepSpec>& steps, const std::vector<EpilogueOperandSpec>& operands);

    bool empty() const { return steps_.empty(); }
    // Returns the number of operands: they follow the bias among a kernel's operands, before scratch and destination.
    int operands() const { return static_cast<int>(operands_.size()); }
    // Returns the parameters for a dst whose axes other than the channels have these sizes and strides, the images
    // first; they point into this object. Throws if an operand's spread does not fit the strides.
    EpilogueParams params(int64_t channels, const std::vector<int64_t>& sizes,
                          const std::vector<int64_t>& strides) const;

    // Whether all operands are single elements, so that the post-ops are the same for all elements of dst.
    bool alike() const;

private:
    std::vector<EpilogueStep> steps_;
    std::vector<EpilogueOperand> operands_;
};

// Returns the post-ops as one activation on sums in registers, if they are one; else none.
FusedActivation fused_activation_of(const EpilogueParams& params);

// Results of positions that lie equal steps of dst apart, in one image or several.
struct EpilogueRun {
    float* values;
    int64_t step;  // floats from one position to the next
    int64_t offset, pitch;  // elements of dst: to the first value; between positions
    int64_t count, channels;
    int64_t channel;  // the first one
};
void apply_epilogue(const EpilogueParams& params, const char* const* operands, const EpilogueRun& run);

// Returns the steps of a program; at its begin register 0 is written, or none.
std::vector<EpilogueStep> epilogue_steps(const std::vector<EpilogueStepSpec>& steps, size_t operands, bool begun);

}  // namespace dgo
