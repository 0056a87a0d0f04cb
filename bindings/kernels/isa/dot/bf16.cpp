// Products of bf16: sums begin with the bias, and are f32.
#include "kernels/isa/dot/products.hpp"

namespace dgo::DGO_ISA {
namespace {

struct Bf16Finish {
    using Sum = float;
    static constexpr bool kIntegers = false;
    static constexpr int filling = 0;

    const Dot& dot;
    const ProductParams& params;
    const ProductCall& call;
    int64_t group = 0, run = params.dst.run;
    float* bias = nullptr;  // [group][run]
    const FusedActivation activation;

    Bf16Finish(const ProductParams& of, const ProductCall& operands, const char*)
        : dot(*of.dot), params(of), call(operands), activation(activation_of(of)) {}

    // Returns the post-ops where they are an activation, and results are rounded right after it.
    static FusedActivation activation_of(const ProductParams& of) {
        const bool at_once = of.dot->round != nullptr && of.dst.type == ElementType::bf16;
        return at_once ? of.activation : FusedActivation{};
    }
    bool activates() const { return activation.as != FusedActivation::As::it_is; }

    void carve(ScratchCarver& carver) { bias = carver.take(params.channel_groups * run); }

    void prepare() {
        __builtin_memset(bias, 0, static_cast<size_t>(params.channel_groups * run) * sizeof(float));
        widen_bias(params, call.bias, bias);
    }

    void start(const TargetGroup&, const FilterImage& image, int64_t column, int64_t count, float* to) const {
        const float* from = bias + group * run;
        for (int64_t c = 0, at = column % image.run; c < count; ++c) {
            to[c] = from[at];
            if (++at == image.run) at = 0;
        }
    }

    void scale(float*, int64_t, int64_t) const {}

    bool rounds_panels(ElementType type) const { return type == ElementType::bf16 && dot.round != nullptr; }
    void round_panel(const float* from, const DotTarget* targets, int64_t rows, int64_t begin, int64_t end) const {
        dot.round(activation, from, kDotColumns, targets, rows, begin, end);
    }

    // Activates and rounds elements [begin, end) of rows to bf16 if the set can; returns whether rows are left.
    bool round_rows(ElementType type, const float* from, const DotTarget* targets, int64_t rows, int64_t begin,
                    int64_t end) const {
        if (!rounds_panels(type)) return true;
        dot.round(activation, from, kSumsPitch, targets, rows, begin, end);
        return false;
    }

    DGO_INLINE void round(ElementType type, const float* from, int64_t count, char* to) const {
        narrow(type, from, count, to);
    }

    DGO_INLINE void scale_and_round(ElementType type, const float* row, char* to, int64_t, int64_t count) const {
        round(type, row, count, to);
    }
};

}  // namespace

const ProductCode kBf16Products = kProductsOf<Products<Bf16Finish>>;

}  // namespace dgo::DGO_ISA
