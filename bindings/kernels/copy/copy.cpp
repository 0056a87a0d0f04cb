#include "kernels/copy/copy.hpp"

#include <algorithm>
#include <string>

#include "kernels/axes.hpp"
#include "kernels/checked.hpp"
#include "kernels/declaration.hpp"
#include "kernels/division.hpp"
#include "kernels/parallel.hpp"

namespace dgo {
namespace {

// Bytes of both sides that a task moves at most: half of a small second-level cache.
constexpr int64_t kTaskBytes = 256 * 1024, kLeastTaskBytes = 32 * 1024;
constexpr double kTasks = 64;  // of transposed blocks, which take several times as long: for as many threads

// Transposed blocks: elements of a side before cuts, and the unit of the cuts.
constexpr int64_t kSquare = 256, kLeastPart = 64;
constexpr int64_t kLongRun = 256;           // elements
constexpr double kCachedBytes = 1024 * 1024;  // bytes of src and dst together

void check_strides(const char* operand, size_t rank, const std::vector<int64_t>& strides) {
    if (strides.size() != rank) {
        fail(ErrorKind::invalid_argument, std::string("copy: ") + operand + " has " + std::to_string(strides.size()) +
                                              " strides, the shape has " + std::to_string(rank) + " axes");
    }
}

std::vector<int64_t> magnitudes(const std::vector<int64_t>& strides) {
    std::vector<int64_t> found = strides;
    for (int64_t& stride : found) {
        // the lowest number has no counterpart, and is refused as it is
        if (stride < 0 && stride != INT64_MIN) stride = -stride;
    }
    return found;
}

}  // namespace

// Returns the axes in the order of dst, outermost first, merged with their neighbours where both sides allow it.
std::vector<StridedCopy::Axis> StridedCopy::coalesce(const std::vector<int64_t>& shape,
                                                     const std::vector<int64_t>& src_strides,
                                                     const std::vector<int64_t>& dst_strides) {
    AxesOf<2> axes;
    for (size_t i = 0; i < shape.size(); ++i) {
        if (shape[i] != 1) axes.push_back({shape[i], {dst_strides[i], src_strides[i]}});
    }
    std::vector<Axis> merged;
    for (const auto& [size, strides] : joined(std::move(axes))) merged.push_back({size, strides[1], strides[0]});
    return merged;
}

// A short run that is contiguous on both sides becomes one element of 2 to 32 bytes. Returns the new size.
int64_t StridedCopy::widen_elements(std::vector<Axis>& axes, int64_t size) {
    if (axes.size() < 2) return size;
    const Axis run = axes.back();
    const int64_t wide = run.size * size;
    if (run.src != 1 || run.dst != 1 || wide > 32 || (wide & (wide - 1)) != 0) return size;
    for (size_t i = 0; i + 1 < axes.size(); ++i) {
        if (axes[i].src % run.size != 0 || axes[i].dst % run.size != 0) return size;
    }
    axes.pop_back();
    for (Axis& axis : axes) {
        axis.src /= run.size;
        axis.dst /= run.size;
    }
    return wide;
}

// Removes the two axes of the block from `axes` and returns them.
BlockKind StridedCopy::choose_block(std::vector<Axis>& axes) {
    const auto take = [&axes](size_t index) {
        if (index >= axes.size()) return Axis{1, 0, 0};
        const Axis axis = axes[index];
        axes.erase(axes.begin() + static_cast<std::ptrdiff_t>(index));
        return axis;
    };
    const Axis inner = take(axes.size() - 1);
    n1_ = inner.size;
    block_.src1 = inner.src;
    block_.dst1 = inner.dst;

    BlockKind kind = BlockKind::strided;
    size_t partner = axes.size() - 1;
    if (inner.dst == 1 && inner.src == 1) {
        kind = BlockKind::rows;
    } else if (inner.dst == 1 && inner.src == 0) {
        kind = BlockKind::broadcast;
    } else if (inner.dst == 1) {
        for (size_t i = axes.size(); i-- > 0;) {
            if (axes[i].src != 1) continue;
            kind = BlockKind::transposed;
            partner = i;
            break;
        }
    }
    if (kind != BlockKind::transposed && !axes.empty() && axes[partner].size < 8) {
        // Short rows of short rows would spend their time in calls.
        for (size_t i = 0; i < axes.size(); ++i) {
            if (axes[i].size > axes[partner].size) partner = i;
        }
    }
    const Axis outer = axes.empty() ? Axis{1, 0, 0} : take(partner);
    n0_ = outer.size;
    block_.src0 = outer.src;
    block_.dst0 = outer.dst;
    if (kind == BlockKind::transposed) {
        // Short runs of either side that are continued by another axis are lengthened by it.
        const auto fold = [&](int64_t& size, int64_t Axis::* run, int64_t Axis::* step, CopyFold& found) {
            if (size >= kLongRun) return;
            for (size_t i = 0; i < axes.size(); ++i) {
                if (axes[i].*run != size) continue;
                const Axis axis = take(i);
                found = {size, axis.*step};
                size *= axis.size;
                return;
            }
        };
        // either side may be continued by the same axis: the shorter one is
        if (n0_ <= n1_) fold(n0_, &Axis::src, &Axis::dst, block_.fold0);
        fold(n1_, &Axis::dst, &Axis::src, block_.fold1);
        if (block_.fold0.size == 0) fold(n0_, &Axis::src, &Axis::dst, block_.fold0);
    }
    return kind;
}

void StridedCopy::cut(const std::vector<Axis>& outer, int64_t src_size, int64_t dst_size) {
    axes_ = 0;
    const auto add = [this](int64_t size, int64_t src, int64_t dst) {
        size_[axes_] = size;
        src_[axes_] = src;
        dst_[axes_] = dst;
        ++axes_;
    };
    for (const Axis& axis : outer) add(axis.size, axis.src * src_size, axis.dst * dst_size);
    // folded rows are whole folds from block to block
    const auto advance = [](int64_t step, int64_t stride, const CopyFold& fold) {
        return fold.size != 0 ? step / fold.size * fold.step : step * stride;
    };
    const int64_t n0 = block_.n0, n1 = block_.n1;
    add(ceil_div(n0_, n0), n0 * block_.src0 * src_size, advance(n0, block_.dst0, block_.fold0) * dst_size);
    add(ceil_div(n1_, n1), advance(n1, block_.src1, block_.fold1) * src_size, n1 * block_.dst1 * dst_size);
    tasks_ = 1;
    for (int i = 0; i < axes_; ++i) tasks_ *= size_[i];
}

StridedCopy::StridedCopy(const std::vector<int64_t>& shape, int src_dtype, const std::vector<int64_t>& src_strides,
                         int dst_dtype, const std::vector<int64_t>& dst_strides) {
    if (shape.size() > kMaxAxes) {
        fail(ErrorKind::invalid_argument,
             "copy: " + std::to_string(shape.size()) + " axes, at most " + std::to_string(kMaxAxes) + " are possible");
    }
    check_strides("src", shape.size(), src_strides);
    check_strides("dst", shape.size(), dst_strides);
    int64_t src_size = item_size(src_dtype);
    int64_t dst_size = item_size(dst_dtype);
    const bool same = src_dtype == dst_dtype;
    int64_t count = 1;
    for (size_t i = 0; i < shape.size(); ++i) {
        if (shape[i] < 0) {
            fail(ErrorKind::invalid_argument, "copy: negative extent " + std::to_string(shape[i]));
        }
        if (dst_strides[i] < 0) {
            fail(ErrorKind::invalid_argument, "copy: dst has the negative stride " + std::to_string(dst_strides[i]));
        }
        if (shape[i] > 1 && dst_strides[i] == 0) {
            fail(ErrorKind::invalid_argument, "copy: dst has stride 0 on axis " + std::to_string(i) + " of extent " +
                                                  std::to_string(shape[i]) + "; its elements would overlap");
        }
        if (shape[i] == 0) count = 0;
    }
    if (count == 0) return;
    for (const int64_t size : shape) count = checked_product("copy", {count, size});
    check_extent("copy", "src", shape, magnitudes(src_strides));
    check_extent("copy", "dst", shape, dst_strides);
    bytes_ = static_cast<double>(count) * static_cast<double>(src_size + dst_size);

    std::vector<Axis> axes = coalesce(shape, src_strides, dst_strides);
    if (same) {
        src_size = dst_size = widen_elements(axes, dst_size);
    }
    if (axes.empty()) axes.push_back({1, 1, 1});
    const BlockKind kind = choose_block(axes);
    if (same) {
        block_fn_ = copy_block(kind, raw_type(dst_size), raw_type(dst_size));
    } else {
        block_fn_ = copy_block(kind, number_type(src_dtype), number_type(dst_dtype));
    }

    const int64_t least = kind == BlockKind::transposed ? kLeastTaskBytes : kTaskBytes;
    const int64_t task_bytes = std::clamp(static_cast<int64_t>(bytes_ / kTasks), least, kTaskBytes);
    const int64_t elements = std::max<int64_t>(task_bytes / (src_size + dst_size), 1);
    if (kind == BlockKind::transposed) {
        // Makes blocks square, so that as few pages as possible are in use.
        const auto part = [](int64_t extent, int64_t most, const CopyFold& fold) {
            const int64_t unit = std::max<int64_t>(fold.size, 1), step = unit * ceil_div(kLeastPart, unit);
            return std::min(extent, std::max(most / step * step, step));
        };
        block_.n1 = part(n1_, kSquare, block_.fold1);
        block_.n0 = part(n0_, elements / block_.n1, block_.fold0);
        block_.n1 = part(n1_, elements / block_.n0, block_.fold1);
        block_.cached = bytes_ <= kCachedBytes;
    } else {
        block_.n1 = std::min(n1_, elements);
        block_.n0 = std::min<int64_t>(n0_, std::max<int64_t>(elements / block_.n1, 1));
    }
    cut(axes, src_size, dst_size);
}

void StridedCopy::run_part(const char* src, char* dst, int64_t begin, int64_t end) const {
    if (begin >= end) return;
    int64_t index[kMaxAxes + 2];
    int64_t rest = begin;
    for (int i = axes_; i-- > 0;) {
        index[i] = rest % size_[i];
        rest /= size_[i];
        src += index[i] * src_[i];
        dst += index[i] * dst_[i];
    }
    CopyBlock block = block_;
    int64_t& j0 = index[axes_ - 2];
    int64_t& j1 = index[axes_ - 1];
    for (int64_t task = begin;;) {
        block.n0 = std::min(block_.n0, n0_ - j0 * block_.n0);
        block.n1 = std::min(block_.n1, n1_ - j1 * block_.n1);
        block_fn_(src, dst, block);
        if (++task == end) return;
        for (int i = axes_ - 1;; --i) {
            src += src_[i];
            dst += dst_[i];
            if (++index[i] < size_[i]) break;
            src -= index[i] * src_[i];
            dst -= index[i] * dst_[i];
            index[i] = 0;
        }
    }
}

void StridedCopy::run(const char* src, char* dst) const {
    if (tasks_ == 0) return;
    parallel_for(tasks_, bytes_, [&](int64_t begin, int64_t end) { run_part(src, dst, begin, end); });
}

namespace {

struct CopyKernel : Kernel {
    StridedCopy copy;

    explicit CopyKernel(StridedCopy p) : copy(std::move(p)) {
        arity = 2;
        name = "copy";
    }
    void run(char* const* operands) const override { copy.run(operands[0], operands[1]); }
};

}  // namespace

std::shared_ptr<Kernel> make_copy(const Dims& shape, int src_dtype, const Dims& src_strides, int dst_dtype,
                                  const Dims& dst_strides) {
    return std::make_shared<CopyKernel>(StridedCopy(shape, src_dtype, src_strides, dst_dtype, dst_strides));
}

const Declaration kCopy{"copy(shape, src_dtype, src_strides, dst_dtype, dst_strides)", make_copy,
                        "src (shape), dst (shape)", "dst = src, element by element, converted to dst's type."};

}  // namespace dgo
