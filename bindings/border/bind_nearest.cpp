// _core.similar_sums: see common/nearest.hpp.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "common/nearest.hpp"

namespace py = pybind11;

namespace dgo {
namespace {

using Rows = py::array_t<std::int16_t, py::array::c_style>;

std::vector<double> sums_of(const Rows& rows, const std::vector<double>& place) {
    if (rows.ndim() != 2 || rows.shape(1) < static_cast<py::ssize_t>(place.size())) {
        throw py::value_error("needs rows of " + std::to_string(place.size()) + " features and weights");
    }
    return similar_sums(rows.data(), static_cast<std::size_t>(rows.shape(0)), static_cast<std::size_t>(rows.shape(1)),
                        place);
}

}  // namespace

void bind_nearest(py::module_& m) {
    m.def("similar_sums", sums_of, py::arg("rows"), py::arg("place"),
          "Returns the sums of rows' weights by the similarity of their features to those of a place.\n\nrows: int16, "
          "hundredths of features and weights.");
}

}  // namespace dgo
