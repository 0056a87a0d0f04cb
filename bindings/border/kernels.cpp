// _core.kernels: own vector code as objects that a params, or a test, can run.
#include <omp.h>
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <optional>

#include "border/gil.hpp"
#include "common/error.hpp"
#include "kernels/bands/bands.hpp"
#include "kernels/chain/plain.hpp"
#include "kernels/chain/select.hpp"
#include "kernels/copy/take.hpp"
#include "kernels/factories.hpp"
#include "kernels/isa.hpp"
#include "kernels/scan/running_sum.hpp"
#include "kernels/scan/top.hpp"
#include "library/fork_guard.hpp"
#include "library/threads.hpp"

namespace py = pybind11;
using namespace py::literals;

namespace dgo {

void bind_filter_kernels(py::module_& m);
void bind_norm_kernels(py::module_& m);
void bind_places_kernels(py::module_& m);
void bind_recurrent_kernels(py::module_& m);
void bind_stem_kernels(py::module_& m);
void bind_tail_kernels(py::module_& m);
void bind_window_kernels(py::module_& m);
void bind_work(py::module_& m);

namespace {

char* address_of(const py::handle& operand) {
    if (py::isinstance<py::array>(operand)) {
        return static_cast<char*>(const_cast<void*>(py::reinterpret_borrow<py::array>(operand).data()));
    }
    return reinterpret_cast<char*>(operand.cast<uintptr_t>());
}

void run(const Kernel& kernel, const py::args& operands) {
    fork_guard::enter();
    if (static_cast<int>(operands.size()) != kernel.arity) {
        fail(ErrorKind::invalid_argument, "kernel '" + kernel.name + "' takes " + std::to_string(kernel.arity) +
                                              " operands, got " + std::to_string(operands.size()));
    }
    std::vector<char*> addresses;
    for (const py::handle operand : operands) addresses.push_back(address_of(operand));
    const py::object self = kept(kernel);
    const ReleaseGil release;
    threads::require(omp_get_max_threads());
    kernel.run(addresses.data());
}

template <auto make>
std::shared_ptr<Kernel> depthwise_gather(const DepthwiseProblem& problem, bool has_bias, std::optional<int> bias_dtype,
                                         bool packed, const Tail& tail) {
    return make(problem, {has_bias, bias_dtype.value_or(problem.dtype), packed, tail});
}

void bind_depthwise(py::module_& m) {
    py::class_<DepthwiseProblem>(m, "DepthwiseProblem",
                                 "One kernel a channel, or groups of `width` channels in and out, 1 to 3 spatial axes. "
                                 "Strides count elements: n, c, spatial for src and dst; c, kernel for the weights, or "
                                 "group, in channel, out channel, kernel. Sums are f32.")
        .def(py::init([](const LayerSizes& layer, int dtype, const Dims& src_strides, const Dims& weights_strides,
                         const Dims& dst_strides, int64_t width) {
                 return DepthwiseProblem{layer, dtype, src_strides, weights_strides, dst_strides, width};
             }),
             "layer"_a, "dtype"_a, "src_strides"_a, "weights_strides"_a, "dst_strides"_a, "width"_a = 1);
    m.def("depthwise_forward", depthwise_gather<make_depthwise_forward>, "problem"_a, "has_bias"_a = false,
          "bias_dtype"_a = py::none(), "packed"_a = false, "tail"_a = Tail(),
          "run(src, weights, [bias,] the tail's, dst): transposed convolution.");
    m.def("depthwise_backward_data", depthwise_gather<make_depthwise_backward_data>, "problem"_a, "has_bias"_a = false,
          "bias_dtype"_a = py::none(), "packed"_a = false, "tail"_a = Tail(),
          "run(diff_dst, weights, [bias,] the tail's, diff_src).");
    m.def("depthwise_packing", make_depthwise_packing, "problem"_a, "forward"_a,
          "run(weights, packed) for kernels of the direction with packed=True; the floats of packed, and the shape and "
          "the strides there of what is copied.");
    m.def("depthwise_backward_weights", make_depthwise_backward_weights, "problem"_a,
          "run(src, diff_dst, diff_weights); the same sums for any number of threads. No groups.");
    m.def("gathers_groups", gathers_groups, "channels"_a, "width"_a,
          "Whether groups of so many of all channels have kernels on this CPU.");
}

void bind_columns(py::module_& m) {
    m.def(
        "im2col",
        [](const LayerSizes& layer, int dst_dtype, const Dims& dst_strides, int col_dtype, const Dims& col_strides) {
            return make_im2col({layer, col_dtype, col_strides, dst_dtype, dst_strides});
        },
        "layer"_a, "dst_dtype"_a, "dst_strides"_a, "col_dtype"_a, "col_strides"_a,
        "run(dst, col): the positions of a transposed convolution's dst that every source position meets, "
        "zero where there is none. Strides count elements: n, source axes, kernel axes, c for col; n, c, spatial for "
        "dst.");
    m.def(
        "overlap_add",
        [](const LayerSizes& layer, const Dims& col_strides, int dst_dtype, const Dims& dst_strides, bool has_bias,
           std::optional<int> bias_dtype, const Tail& tail) {
            return make_overlap_add({layer, kF32, col_strides, dst_dtype, dst_strides}, has_bias,
                                    bias_dtype.value_or(dst_dtype), tail);
        },
        "layer"_a, "col_strides"_a, "dst_dtype"_a, "dst_strides"_a, "has_bias"_a = false, "bias_dtype"_a = py::none(),
        "tail"_a = Tail(),
        "run(col, [bias,] the tail's, dst): dst = bias + the sum of the f32 columns that meet a position; the reverse "
        "of im2col.");
    m.def("overlap_add_takes_tail", overlap_add_takes_tail, "channels"_a, "dst_strides"_a,
          "Whether overlap_add takes a tail for so many channels and these strides of dst.");
}

}  // namespace

void bind_kernels(py::module_& parent) {
    py::module_ m = parent.def_submodule("kernels", "Own vector code.");
    m.def("isa", [] { return vector_code().isa; }, "The instruction set in use: 'avx2' or 'avx512'.");
    m.def("isa_reason", [] { return vector_reason(); }, "Why that is not a wider one, or ''.");

    py::class_<Kernel, std::shared_ptr<Kernel>>(m, "Kernel", "One step of a params.")
        .def_readonly("arity", &Kernel::arity, "The number of operands of run().")
        .def_readonly("name", &Kernel::name)
        .def("run", run,
             "Runs on NumPy arrays or addresses, sources first and destination last. Extents, strides and "
             "data types are those given to the factory: the operands are not checked.");

    bind_tail_kernels(m);
    m.def("copy", make_copy, "shape"_a, "src_dtype"_a, "src_strides"_a, "dst_dtype"_a, "dst_strides"_a,
          "run(src, dst): dst = src, element by element, converted.");
    m.def("fill", make_fill, "shape"_a, "dtype"_a, "strides"_a, "value"_a, "run(dst): dst = value.");
    m.def("fill_channel", make_fill_channel, "shape"_a, "dtype"_a, "dst_strides"_a, "axis"_a, "bias_dtype"_a,
          "run(bias, dst): dst = bias of the element's index on `axis`.");
    m.def(
        "scan", make_scan, "items"_a,
        "run(src, ..., flag): flag, one s32, = whether any element of the sources is Inf or NaN. Each item is a shape, "
        "a data type (f32, bf16 or f16) and strides.");
    m.def(
        "select", make_select, "shape"_a, "strides"_a, "item"_a,
        "run(cond, src_0, src_1, dst): src_0 where cond, of bytes, is not 0, else src_1; strides: of each operand, in "
        "elements of `item` bytes, 0 where it is stretched.");
    m.def("plain", make_plain, "op"_a, "shape"_a, "strides"_a, "src_dtype"_a, "dst_dtype"_a,
          "run(src_0, [src_1,] dst): an element-wise op on numbers or truth values as they are; strides: of each "
          "operand, in elements, 0 where it is stretched.");
    m.def(
        "take",
        [](int64_t outer, const Dims& sizes, int64_t inner, int64_t rows, int64_t item, int64_t index, bool batched) {
            return make_take({outer, sizes, inner, rows, item, index, batched});
        },
        "outer"_a, "sizes"_a, "inner"_a, "rows"_a, "item"_a, "index"_a, "batched"_a = false,
        "run(src, places, dst), in a row as (outer, sizes..., inner), (outer if batched, rows, one for each size) and "
        "(outer, rows, inner), src of `item` and places of `index` bytes: dst[o, r] = src[o, places[o, r]]. Places "
        "below 0 count from the end; what lies outside is an error.");
    m.def(
        "top", make_top, "outer"_a, "length"_a, "inner"_a, "count"_a, "largest"_a = true, "has_values"_a = true,
        "run(src, [values,] places), f32 and s64 in a row as (outer, length or count, inner): the largest or smallest "
        "along the length in their order, of equal ones the first; NaN counts as the largest.");
    m.def("running_sum", make_running_sum, "outer"_a, "length"_a, "inner"_a, "exclusive"_a = false, "reverse"_a = false,
          "run(src, dst), f32 in a row as (outer, length, inner): dst = the sums of src along the length up to each "
          "element, made in f64.");
    m.def(
        "bands",
        [](std::vector<std::shared_ptr<Kernel>> parts,
           const std::vector<std::vector<std::pair<size_t, std::vector<std::pair<int, int64_t>>>>>& tasks, int operands,
           int64_t scratch_bytes, int threads) {
            std::vector<BandTask> found;
            for (const auto& task : tasks) {
                found.emplace_back();
                for (const auto& [kernel, given] : task) found.back().push_back({kernel, given});
            }
            return make_bands(std::move(parts), std::move(found), operands, scratch_bytes, threads);
        },
        "kernels"_a, "tasks"_a, "operands"_a, "scratch_bytes"_a, "threads"_a,
        "run(sources ..., scratch, dst), of so many operands: every task is a list of (number of a kernel, its "
        "operands as "
        "(number of one here, offset in bytes)) that a thread runs in order, with scratch_bytes of scratch of its "
        "own.");
    m.def("copy_list", make_copy_list, "items"_a, "src_dtype"_a, "dst_dtype"_a, "zero_elements"_a = 0,
          "run(src, dst): dst[0:zero_elements] = 0, then every item (shape, src_offset, src_strides, "
          "dst_offset, dst_strides) as a copy.");
    m.def(
        "row_product",
        [](int64_t images, int64_t rows, int64_t columns, int64_t depth, int a_dtype, const Dims& a_strides,
           int b_dtype, const Dims& b_strides, int c_dtype, const Dims& c_strides, int bias_dtype, int bias_axis,
           const Tail& tail, int64_t tail_channels, const Dims& tail_sizes, const Dims& tail_strides) {
            return make_row_product({images,
                                     rows,
                                     columns,
                                     depth,
                                     {a_dtype, a_strides},
                                     {b_dtype, b_strides},
                                     {c_dtype, c_strides},
                                     bias_dtype,
                                     bias_axis},
                                    {tail, tail_channels, tail_sizes, tail_strides});
        },
        "images"_a, "rows"_a, "columns"_a, "depth"_a, "a_dtype"_a, "a_strides"_a, "b_dtype"_a, "b_strides"_a,
        "c_dtype"_a, "c_strides"_a, "bias_dtype"_a = 0, "bias_axis"_a = 1, "tail"_a = Tail(), "tail_channels"_a = 0,
        "tail_sizes"_a = Dims{}, "tail_strides"_a = Dims{},
        "run(a, b, [bias,] the tail's, c): c[n, i, j] = bias[j] + sum over k of a[n, i, k] * b[n, j, k]; bias[i] where "
        "bias_axis "
        "is "
        "0. Each is f32, bf16 or f16; sums are f32 and rounded once. Strides count elements: image, row and depth for "
        "a "
        "and b, one of whose last two has to be 1; image, row and column for c. Images of c with the stride 0 are "
        "summed. A bias_dtype of 0: no bias.");
    py::class_<LayerSizes>(m, "LayerSizes", "A layer that treats its channels alike, seen as a transposed convolution.")
        .def(py::init<int64_t, int64_t, Dims, Dims, Dims, Dims, Dims, Dims>(), "n"_a, "c"_a, "src_spatial"_a,
             "dst_spatial"_a, "kernel"_a, "strides"_a, "pads_begin"_a, "dilations"_a);
    bind_norm_kernels(m);
    bind_places_kernels(m);
    bind_recurrent_kernels(m);
    bind_depthwise(m);
    bind_columns(m);
    bind_filter_kernels(m);
    bind_stem_kernels(m);
    bind_window_kernels(m);
    bind_work(m);
}

}  // namespace dgo
