// _core.kernels.filter_*: the Python side of minimal filtering.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>

#include "kernels/checked.hpp"
#include "kernels/filtering/axis.hpp"
#include "kernels/filtering/filter_product.hpp"
#include "kernels/integer/isa.hpp"
#include "kernels/integer/product.hpp"
#include "kernels/narrow/gradient.hpp"
#include "kernels/narrow/isa.hpp"
#include "kernels/narrow/product.hpp"
#include "kernels/overlap/overlap_product.hpp"

namespace py = pybind11;
using namespace py::literals;

namespace dgo {
namespace {

using Dims = std::vector<int64_t>;

// Fewer than three axes are the last ones.
Axes axes(const Dims& values, size_t rank, int64_t missing, const char* name) {
    if (values.size() != rank || rank < 1 || rank > kFilterAxes) {
        fail(ErrorKind::invalid_argument, std::string("filter product: ") + name + " has " +
                                              std::to_string(values.size()) + " values for " + std::to_string(rank) +
                                              " spatial axes; give one per axis, for 1 to 3 axes");
    }
    Axes result{{missing, missing, missing}};
    std::copy(values.begin(), values.end(), result.axis + (kFilterAxes - rank));
    return result;
}

FilterProblem make_problem(int64_t batch, int64_t in_channels, int64_t out_channels, const Dims& in, const Dims& out,
                           const Dims& kernel, const Dims& strides, const Dims& pads_begin, const Dims& tile,
                           const Dims& dilations, int64_t groups, bool any_size) {
    const size_t rank = in.size();
    FilterProblem p;
    p.any_size = any_size;
    p.spatial_rank = static_cast<int>(rank);
    p.batch = batch;
    if (groups < 1 || in_channels < 1 || out_channels < 1 || in_channels % groups != 0 || out_channels % groups != 0) {
        fail(ErrorKind::invalid_argument, "filter product: " + std::to_string(in_channels) + " and " +
                                              std::to_string(out_channels) + " channels do not divide into " +
                                              std::to_string(groups) + " groups");
    }
    p.groups = groups;
    p.in_channels = in_channels / groups;
    p.out_channels = out_channels / groups;
    p.in = axes(in, rank, 1, "in_spatial");
    p.out = axes(out, rank, 1, "out_spatial");
    p.kernel = axes(kernel, rank, 1, "kernel");
    p.stride = axes(strides, rank, 1, "strides");
    p.pad = axes(pads_begin, rank, 0, "pads_begin");
    p.tile = axes(tile, rank, 1, "tile");
    p.dilation = dilations.empty() ? Axes{{1, 1, 1}} : axes(dilations, rank, 1, "dilations");
    return p;
}

// Throws unless the sizes with these strides lie within an array; the strides of the last three axes are in order.
void check_reach(const char* name, Dims sizes, const Axes& spatial, Dims strides, const Axes& spatial_strides) {
    sizes.insert(sizes.end(), spatial.axis, spatial.axis + kFilterAxes);
    strides.insert(strides.end(), spatial_strides.axis, spatial_strides.axis + kFilterAxes);
    check_extent("filter product", name, sizes, strides);
}

// strides: batch, then the spatial axes.
FilterTensor tensor(const FilterProblem& p, int dtype, const Dims& strides, const char* name, const Axes& spatial) {
    FilterTensor t;
    t.dtype = dtype;
    if (strides.empty()) fail(ErrorKind::invalid_argument, std::string("filter product: ") + name + " is empty");
    t.batch_stride = strides[0];
    t.strides = axes(Dims(strides.begin() + 1, strides.end()), static_cast<size_t>(p.spatial_rank), 0, name);
    check_axes(p);
    check_reach(name, {p.batch}, spatial, {t.batch_stride}, t.strides);
    return t;
}

// strides: in channel, out channel, then the taps.
FilterWeights weights(const FilterProblem& p, int dtype, const Dims& strides) {
    if (strides.size() < 2) {
        fail(ErrorKind::invalid_argument, "filter product: weights_strides has fewer than 3 values");
    }
    FilterWeights w;
    w.dtype = dtype;
    w.in_stride = strides[0];
    w.out_stride = strides[1];
    w.tap_strides =
        axes(Dims(strides.begin() + 2, strides.end()), static_cast<size_t>(p.spatial_rank), 0, "weights_strides");
    check_axes(p);
    const int64_t in_channels = p.groups * p.in_channels;
    check_reach("weights", {in_channels, p.out_channels}, p.kernel, {w.in_stride, w.out_stride}, w.tap_strides);
    // with one group it may be any number
    w.group_stride = p.groups == 1 ? 0 : p.in_channels * w.in_stride;
    return w;
}

FilterDirection direction_of(const std::string& name) {
    if (name == "forward") return FilterDirection::forward;
    if (name == "backward_data") return FilterDirection::backward_data;
    fail(ErrorKind::invalid_argument, "filter product: direction '" + name + "' is neither forward nor backward_data");
}

using ForwardFactory = std::unique_ptr<ScratchKernel> (*)(const FilterProblem&, const FilterTensor&,
                                                          const FilterTensor&, int, int, const Tail&);

void bind_forward(py::module_& m, const char* name, ForwardFactory make, const char* text) {
    m.def(
        name,
        [make](const FilterProblem& p, int src_dtype, const Dims& src_strides, int dst_dtype, const Dims& dst_strides,
               int bias_dtype, int threads, const Tail& tail) {
            return std::shared_ptr<ScratchKernel>(make(p, tensor(p, src_dtype, src_strides, "src_strides", p.in),
                                                       tensor(p, dst_dtype, dst_strides, "dst_strides", p.out),
                                                       bias_dtype, threads, tail));
        },
        "problem"_a, "src_dtype"_a, "src_strides"_a, "dst_dtype"_a, "dst_strides"_a, "bias_dtype"_a = 0,
        "threads"_a = 0, "tail"_a = Tail(), text);
}

void bind_integer(py::module_& m) {
    m.def(
        "integer_isa",
        [] {
            const IntegerCode* code = integer_code();
            return std::make_pair(std::string(code == nullptr ? "" : code->isa), integer_reason());
        },
        "The instruction set of integer products, or '' for none; and why no better one is used, or ''.");
    m.def(
        "integer_layout",
        [](int64_t channels, int src_dtype, const std::string& isa) {
            const IntegerLayout layout = integer_layout(channels, src_dtype, isa);
            return py::make_tuple(layout.item, layout.pitch, layout.as_it_is);
        },
        "channels"_a, "src_dtype"_a, "isa"_a = "",
        "Of rows: bytes of an element, elements of a position, and whether src is its rows as it lies.");
    m.def("integer_pack_subtracts", integer_pack_subtracts, "isa"_a = "",
          "Whether zero points of weights go to integer_pack rather than to integer_product.");
    m.def(
        "integer_packed_size",
        [](const FilterProblem& p, const std::string& direction, const std::string& isa) {
            return integer_packed_size(p, direction_of(direction), isa);
        },
        "problem"_a, "direction"_a, "isa"_a = "", "Bytes of the weights that integer_product takes.");
    m.def(
        "integer_packing",
        [](const FilterProblem& p, const std::string& direction, const std::string& isa) {
            return py::bytes(integer_packing(p, direction_of(direction), isa));
        },
        "problem"_a, "direction"_a, "isa"_a = "", "As FilterProblem.packing, for integer_pack.");
    m.def(
        "integer_rows",
        [](const Dims& sizes, const Dims& strides, int64_t channels, int src_dtype, int src_zero, int threads,
           const std::string& isa) {
            return std::shared_ptr<Kernel>(integer_rows(sizes, strides, channels, src_dtype, src_zero, threads, isa));
        },
        "sizes"_a, "strides"_a, "channels"_a, "src_dtype"_a, "src_zero"_a, "threads"_a = 0, "isa"_a = "",
        "run(src, rows). Sizes and strides: of all axes but the channels, which are contiguous.");
    m.def(
        "integer_pack",
        [](const FilterProblem& p, const std::string& direction, int dtype, const Dims& strides, int64_t channels,
           bool has_points, int threads, const std::string& isa) {
            const FilterWeights w = weights(p, dtype, strides);
            return std::shared_ptr<Kernel>(
                integer_pack(p, direction_of(direction), w, channels, has_points, threads, isa));
        },
        "problem"_a, "direction"_a, "weights_dtype"_a, "weights_strides"_a, "channels"_a, "has_points"_a = false,
        "threads"_a = 0, "isa"_a = "",
        "run(weights, [points,] packed), as filter_pack; weights are s8 or u8. channels: of a group, what weights have "
        "of "
        "those that are read; the others fill up a position of rows.");
    m.def(
        "integer_product",
        [](const FilterProblem& p, const std::string& direction, const Dims& rows_strides, int dst_dtype,
           const Dims& dst_strides, int src_dtype, int src_zero, double dst_scale, int dst_zero, int dst_low,
           int dst_high, bool has_points, int bias_dtype, int64_t position, int threads, const Tail& tail,
           const std::string& isa) {
            const FilterDirection to = direction_of(direction);
            const bool forward = to == FilterDirection::forward;
            return std::shared_ptr<ScratchKernel>(
                integer_product(p, to, tensor(p, src_dtype, rows_strides, "rows_strides", forward ? p.in : p.out),
                                tensor(p, dst_dtype, dst_strides, "dst_strides", forward ? p.out : p.in),
                                {src_dtype, src_zero, dst_scale, dst_zero, dst_low, dst_high, has_points}, bias_dtype,
                                position, threads, tail, isa));
        },
        "problem"_a, "direction"_a, "rows_strides"_a, "dst_dtype"_a, "dst_strides"_a, "src_dtype"_a, "src_zero"_a,
        "dst_scale"_a = 1.0, "dst_zero"_a = 0, "dst_low"_a = -128, "dst_high"_a = 255, "has_points"_a = false,
        "bias_dtype"_a = 0, "position"_a = 0, "threads"_a = 0, "tail"_a = Tail(), "isa"_a = "",
        "run(rows, packed, scales, [bias,] [points, sums,] the tail's, scratch, dst). Sums are exact; scales and bias "
        "are f32 of all out channels. Results in s8 or u8, from dst_low to dst_high, are rounded quotients by "
        "dst_scale, "
        "plus dst_zero; in s32 they are the sums, without scales. `position`: elements of dst from one position to the "
        "next.");
}

}  // namespace

void bind_filter_kernels(py::module_& m) {
    py::class_<ScratchKernel, Kernel, std::shared_ptr<ScratchKernel>>(
        m, "ScratchKernel", "A kernel that takes scratch memory as the operand before its destination.")
        .def_readonly("scratch_bytes", &ScratchKernel::scratch_bytes, "Bytes of scratch; align it to 64.")
        .def_readonly("over_operands", &ScratchKernel::over_operands,
                      "Whether an operand of post-ops that lies as the destination does may be where that is.")
        .def_readonly("products", &ScratchKernel::products, "Multiplications of one run.");
    py::class_<FilterProblem>(
        m, "FilterProblem",
        "A transposed convolution, channels last. `tile`: results per tile and axis: 1 is the "
        "direct form of that axis, for any kernel; minimal filtering has 2, 3 and 4 for two taps per "
        "phase, 2 and 4 for three, without dilation; 4 on the last two axes, alike. `any_size`: weights are packed "
        "as for large sizes, whatever the sizes are.")
        .def(py::init(&make_problem), "batch"_a, "in_channels"_a, "out_channels"_a, "in_spatial"_a, "out_spatial"_a,
             "kernel"_a, "strides"_a, "pads_begin"_a, "tile"_a, "dilations"_a = Dims{}, "groups"_a = 1,
             "any_size"_a = false)
        .def(
            "packed_size",
            [](const FilterProblem& p, const std::string& direction) {
                return filter_packed_size(p, direction_of(direction));
            },
            "direction"_a, "f32 elements of the packed weights of 'forward' or 'backward_data'.")
        .def(
            "packing",
            [](const FilterProblem& p, const std::string& direction) {
                return py::bytes(filter_packing(p, direction_of(direction)));
            },
            "direction"_a, "What the packed weights depend on besides the weights' own layout and data.")
        .def(
            "narrow_packed_size",
            [](const FilterProblem& p, const std::string& direction) {
                return narrow_packed_size(p, direction_of(direction));
            },
            "direction"_a, "bf16 elements of the weights that narrow_product takes.")
        .def(
            "narrow_packing",
            [](const FilterProblem& p, const std::string& direction) {
                return py::bytes(narrow_packing(p, direction_of(direction)));
            },
            "direction"_a, "As `packing`, for narrow_pack.")
        .def("refusal", &filter_refusal, "Why no filter kernel computes the layer; empty if they do.")
        .def("overlap_refusal", &overlap_refusal, "Why overlap_product does not compute the layer; empty if it does.")
        .def("taps_apart", &taps_apart, "The layer whose packed weights overlap_product takes for this one.");
    m.def(
        "filter_pack",
        [](const FilterProblem& p, const std::string& direction, int dtype, const Dims& strides, int threads) {
            const FilterWeights w = weights(p, dtype, strides);
            return std::shared_ptr<Kernel>(filter_pack(p, direction_of(direction), w, threads));
        },
        "problem"_a, "direction"_a, "weights_dtype"_a, "weights_strides"_a, "threads"_a = 0,
        "run(weights, packed). weights_strides: in channel, out channel (of one group), taps; the in channels "
        "of the groups follow each other.");
    bind_forward(m, "filter_forward", filter_forward,
                 "run(src, packed, [bias], the tail's, scratch, dst); bias_dtype 0 means none. Strides: batch, then "
                 "spatial axes; the channels are contiguous.");
    bind_forward(m, "overlap_product", overlap_product,
                 "run(src, packed, [bias], the tail's, scratch, dst), as filter_forward; packed: of "
                 "problem.taps_apart(). "
                 "One group, a last axis without dilation.");
    m.def(
        "filter_backward_data",
        [](const FilterProblem& p, int diff_dst_dtype, const Dims& diff_dst_strides, int diff_src_dtype,
           const Dims& diff_src_strides, int bias_dtype, int threads, const Tail& tail) {
            return std::shared_ptr<ScratchKernel>(filter_backward_data(
                p, tensor(p, diff_dst_dtype, diff_dst_strides, "diff_dst_strides", p.out),
                tensor(p, diff_src_dtype, diff_src_strides, "diff_src_strides", p.in), bias_dtype, threads, tail));
        },
        "problem"_a, "diff_dst_dtype"_a, "diff_dst_strides"_a, "diff_src_dtype"_a, "diff_src_strides"_a,
        "bias_dtype"_a = 0, "threads"_a = 0, "tail"_a = Tail(),
        "run(diff_dst, packed, [bias], the tail's, scratch, diff_src).");
    m.def(
        "filter_backward_weights",
        [](const FilterProblem& p, int src_dtype, const Dims& src_strides, int diff_dst_dtype,
           const Dims& diff_dst_strides, int weights_dtype, const Dims& weights_strides, int threads) {
            return std::shared_ptr<ScratchKernel>(
                filter_backward_weights(p, tensor(p, src_dtype, src_strides, "src_strides", p.in),
                                        tensor(p, diff_dst_dtype, diff_dst_strides, "diff_dst_strides", p.out),
                                        weights(p, weights_dtype, weights_strides), threads));
        },
        "problem"_a, "src_dtype"_a, "src_strides"_a, "diff_dst_dtype"_a, "diff_dst_strides"_a, "weights_dtype"_a,
        "weights_strides"_a, "threads"_a = 0, "run(src, diff_dst, scratch, diff_weights).");
    m.def(
        "narrow_isa",
        [] {
            const NarrowCode* code = narrow_code();
            return std::make_pair(std::string(code == nullptr ? "" : code->isa), narrow_reason());
        },
        "The instruction set of narrow products: 'amx', 'avx512bf16', 'emulated', or '' for none; and why no better "
        "one is "
        "used, or ''.");
    m.def(
        "narrow_pack",
        [](const FilterProblem& p, const std::string& direction, int dtype, const Dims& strides, int threads,
           const std::string& isa) {
            const FilterWeights w = weights(p, dtype, strides);
            return std::shared_ptr<Kernel>(narrow_pack(p, direction_of(direction), w, threads, isa));
        },
        "problem"_a, "direction"_a, "weights_dtype"_a, "weights_strides"_a, "threads"_a = 0, "isa"_a = "",
        "run(weights, packed), as filter_pack, both bf16.");
    m.def(
        "narrow_product",
        [](const FilterProblem& p, const std::string& direction, int src_dtype, const Dims& src_strides, int dst_dtype,
           const Dims& dst_strides, int bias_dtype, int threads, const Tail& tail, const std::string& isa) {
            const FilterDirection to = direction_of(direction);
            const bool forward = to == FilterDirection::forward;
            return std::shared_ptr<ScratchKernel>(
                narrow_product(p, to, tensor(p, src_dtype, src_strides, "src_strides", forward ? p.in : p.out),
                               tensor(p, dst_dtype, dst_strides, "dst_strides", forward ? p.out : p.in), bias_dtype,
                               threads, tail, isa));
        },
        "problem"_a, "direction"_a, "src_dtype"_a, "src_strides"_a, "dst_dtype"_a, "dst_strides"_a, "bias_dtype"_a = 0,
        "threads"_a = 0, "tail"_a = Tail(), "isa"_a = "",
        "run(src, packed, [bias], the tail's, scratch, dst), as filter_forward or filter_backward_data: src and packed "
        "are "
        "bf16, sums f32.");
    m.def(
        "narrow_backward_weights",
        [](const FilterProblem& p, int src_dtype, const Dims& src_strides, int diff_dst_dtype,
           const Dims& diff_dst_strides, int weights_dtype, const Dims& weights_strides, int threads,
           const std::string& isa) {
            return std::shared_ptr<ScratchKernel>(
                narrow_backward_weights(p, tensor(p, src_dtype, src_strides, "src_strides", p.in),
                                        tensor(p, diff_dst_dtype, diff_dst_strides, "diff_dst_strides", p.out),
                                        weights(p, weights_dtype, weights_strides), threads, isa));
        },
        "problem"_a, "src_dtype"_a, "src_strides"_a, "diff_dst_dtype"_a, "diff_dst_strides"_a, "weights_dtype"_a,
        "weights_strides"_a, "threads"_a = 0, "isa"_a = "",
        "run(src, diff_dst, scratch, diff_weights): src and diff_dst in bf16, sums in f32, diff_weights in either.");
    bind_integer(m);
}

}  // namespace dgo
