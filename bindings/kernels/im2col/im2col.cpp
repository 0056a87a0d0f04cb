// im2col as a list of copies: the interior, where every tap exists, is one strided copy; towards the borders
// the taps that exist are copied and the others filled with zeros.
#include <algorithm>

#include "kernels/checked.hpp"
#include "kernels/im2col/columns.hpp"
#include "kernels/copy/copy_list.hpp"
#include "kernels/declaration.hpp"
#include "kernels/division.hpp"
#include "kernels/row_taps.hpp"

namespace dgo {
namespace {

// A stretch of an axis: sources [first, last), each of which meets exactly the taps [tap, tap_end).
struct SourceStretch {
    int64_t first, last;
    int64_t tap, tap_end;
};

std::vector<SourceStretch> stretches(int64_t sources, int64_t outputs, int64_t kernel, int64_t stride, int64_t pad,
                                     int64_t dilation) {
    std::vector<SourceStretch> list;
    for (int64_t q = 0; q < sources; ++q) {
        const int64_t base = q * stride - pad;
        SourceStretch next{q, q + 1, std::clamp<int64_t>(ceil_div(-base, dilation), 0, kernel),
                           std::clamp<int64_t>(ceil_div(outputs - base, dilation), 0, kernel)};
        next.tap_end = std::max(next.tap, next.tap_end);
        if (next.tap == next.tap_end) next.tap = next.tap_end = 0;
        if (!list.empty() && list.back().tap == next.tap && list.back().tap_end == next.tap_end) {
            list.back().last = q + 1;
        } else {
            list.push_back(next);
        }
    }
    return list;
}

class ImageToColumns {
public:
    explicit ImageToColumns(const Im2colProblem& problem)
        : p_(problem), rank_(p_.kernel.size()), kernel_(std::make_shared<CopyListKernel>("im2col", 0)) {
        for (size_t axis = 0; axis < rank_; ++axis) {
            axes_.push_back(stretches(p_.src_spatial[axis], p_.dst_spatial[axis], p_.kernel[axis], p_.strides[axis],
                                      p_.pads_begin[axis], p_.dilations[axis]));
        }
        std::vector<SourceStretch> chosen;
        visit(chosen);
    }

    std::shared_ptr<Kernel> kernel() const { return kernel_; }

private:
    // Lists a copy for every combination of the axes' stretches.
    void visit(std::vector<SourceStretch>& chosen) {
        if (chosen.size() == rank_) return add(chosen);
        for (const SourceStretch& stretch : axes_[chosen.size()]) {
            chosen.push_back(stretch);
            visit(chosen);
            chosen.pop_back();
        }
    }

    void add(const std::vector<SourceStretch>& box) {
        // Lists the zeros for which `axis` is the first axis without a tap: the axes before it have one, the others are
        // free.
        std::vector<SourceStretch> part = box;
        for (size_t axis = 0; axis < rank_; ++axis) {
            for (size_t later = axis + 1; later < rank_; ++later) {
                part[later].tap = 0;
                part[later].tap_end = p_.kernel[later];
            }
            part[axis].tap = 0;
            part[axis].tap_end = box[axis].tap;
            add_copy(part, true);
            part[axis].tap = box[axis].tap_end;
            part[axis].tap_end = p_.kernel[axis];
            add_copy(part, true);
            part[axis] = box[axis];
        }
        add_copy(box, false);
    }

    void add_copy(const std::vector<SourceStretch>& box, bool zeros) {
        Dims shape = {p_.n}, from = {p_.dst_strides[0]}, to = {p_.col_strides[0]};
        int64_t src = 0, dst = 0;
        for (size_t axis = 0; axis < rank_; ++axis) {
            const SourceStretch& s = box[axis];
            const int64_t place = s.first * p_.strides[axis] - p_.pads_begin[axis] + s.tap * p_.dilations[axis];
            shape.push_back(s.last - s.first);
            from.push_back(p_.dst_strides[2 + axis] * p_.strides[axis]);
            to.push_back(p_.col_strides[1 + axis]);
            src += place * p_.dst_strides[2 + axis];
            dst += s.first * p_.col_strides[1 + axis] + s.tap * p_.col_strides[1 + rank_ + axis];
        }
        for (size_t axis = 0; axis < rank_; ++axis) {
            shape.push_back(box[axis].tap_end - box[axis].tap);
            from.push_back(p_.dst_strides[2 + axis] * p_.dilations[axis]);
            to.push_back(p_.col_strides[1 + rank_ + axis]);
        }
        shape.push_back(p_.c);
        from.push_back(p_.dst_strides[1]);
        to.push_back(p_.col_strides.back());
        if (product(shape) == 0) return;
        if (zeros) {
            const Dims none(shape.size(), 0);
            kernel_->add(StridedCopy(shape, p_.col_dtype, none, p_.col_dtype, to), CopyListKernel::kZeros,
                         dst * item_size(p_.col_dtype));
        } else {
            kernel_->add(StridedCopy(shape, p_.dst_dtype, from, p_.col_dtype, to), src * item_size(p_.dst_dtype),
                         dst * item_size(p_.col_dtype));
        }
    }

    const Im2colProblem& p_;
    size_t rank_;
    std::vector<std::vector<SourceStretch>> axes_;
    std::shared_ptr<CopyListKernel> kernel_;
};

}  // namespace

void check_columns(const std::string& what, const Im2colProblem& p) {
    check_layer(what, p);
    check_strides(what, "dst_strides", p, p.dst_spatial, p.dst_strides);
    float_type(p.dst_dtype);
    float_type(p.col_dtype);
    Dims sizes = {p.n};
    sizes.insert(sizes.end(), p.src_spatial.begin(), p.src_spatial.end());
    sizes.insert(sizes.end(), p.kernel.begin(), p.kernel.end());
    sizes.push_back(p.c);
    check_tensor(what, "col_strides", sizes, p.col_strides);
}

namespace {

std::shared_ptr<Kernel> make_im2col(const LayerSizes& layer, int dst_dtype, const Dims& dst_strides, int col_dtype,
                                    const Dims& col_strides) {
    const Im2colProblem problem{layer, col_dtype, col_strides, dst_dtype, dst_strides};
    check_columns("im2col", problem);
    return ImageToColumns(problem).kernel();
}

}  // namespace

const Declaration kIm2col{"im2col(layer, dst_dtype, dst_strides, col_dtype, col_strides)", make_im2col,
                          "dst (n, c, dst_spatial), col (n, src_spatial, kernel, c)",
                          "col[n, src position, tap, c] = the element of a transposed convolution's dst that the "
                          "source position meets by the tap, 0 where there is none. Strides count elements: n, source "
                          "axes, kernel axes, c for col; n, c, spatial for dst."};

}  // namespace dgo
