// _core.kernels.*_work: what a run of a kernel comes to.
#include <pybind11/pybind11.h>

#include "common/error.hpp"
#include "kernels/work.hpp"

namespace py = pybind11;
using namespace py::literals;

namespace dgo {

namespace {

WorkOf work_of(const std::string& name) {
    if (name == "forward") return WorkOf::forward;
    if (name == "backward_data") return WorkOf::backward_data;
    if (name == "backward_weights") return WorkOf::backward_weights;
    fail(ErrorKind::invalid_argument, "filter_work: there is no direction '" + name + "'");
}

}  // namespace

void bind_work(py::module_& m) {
    py::class_<Work>(m, "Work", "What a run of a kernel comes to; estimates of its time go by that.")
        .def_readonly("products", &Work::products,
                      "Multiplications, with those that only fill up vectors and register tiles.")
        .def_readonly("values", &Work::values, "Elements that pass through a transform or a gather.")
        .def_readonly("runs", &Work::runs, "Rows of channels that are fetched or written one by one.")
        .def_readonly("weights", &Work::weights,
                      "Packed weights that are read, or sums of a gradient that are written.");
    m.def(
        "filter_work",
        [](const FilterProblem& p, const std::string& direction, int src_dtype, int dst_dtype, int threads,
           const std::string& isa) {
            return filter_work(p, work_of(direction), src_dtype, dst_dtype, threads, vector_code_of(isa));
        },
        "problem"_a, "direction"_a, "src_dtype"_a, "dst_dtype"_a, "threads"_a = 0, "isa"_a = "",
        "Of filter_* between dense activations, channels last; isa: of another CPU.");
    m.def(
        "overlap_work",
        [](const FilterProblem& p, const std::string& isa) { return overlap_work(p, vector_code_of(isa)); },
        "problem"_a, "isa"_a = "", "Of overlap_product.");
    m.def(
        "row_product_work",
        [](int64_t rows, int64_t columns, int64_t depth, const std::string& isa) {
            return row_product_work(rows, columns, depth, vector_code_of(isa));
        },
        "rows"_a, "columns"_a, "depth"_a, "isa"_a = "",
        "Of row_product; depth: of all images. weights: elements of the right factor that are put across.");
}

}  // namespace dgo
