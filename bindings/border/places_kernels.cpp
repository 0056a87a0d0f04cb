// _core.kernels: elements and pixels at places that tensors tell.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "kernels/places/places.hpp"
#include "kernels/places/sample.hpp"

namespace py = pybind11;
using namespace py::literals;

namespace dgo {

void bind_places_kernels(py::module_& m) {
    py::class_<PlacesProblem>(m, "PlacesProblem",
                              "Rows of data (outer, *sizes, row) of `item` bytes an element. Indices (count, axes), or "
                              "with `each` (outer, count, row) on one axis; negative ones count from the end.")
        .def(py::init<int64_t, std::vector<int64_t>, int64_t, int64_t, int64_t, int64_t, bool>(), "outer"_a, "sizes"_a,
             "row"_a, "item"_a, "count"_a, "index_item"_a = 8, "each"_a = false);
    m.def("pick", make_pick, "problem"_a,
          "run(data, indices, dst): dst (outer, count, row) = the elements, each by its own index.");
    m.def(
        "put", make_put, "problem"_a, "how"_a = "none",
        "run(data, indices, updates, dst): dst = data with updates (outer, count, row) in the place of rows, or of f32 "
        "combined with them in their order: add, mul, max or min.");
    m.def(
        "sample",
        [](int64_t images, int64_t channels, int64_t height, int64_t width, int64_t places, bool linear,
           const std::string& padding, bool align_corners) {
            return make_sample({images, channels, height, width, places, linear, padding, align_corners});
        },
        "images"_a, "channels"_a, "height"_a, "width"_a, "places"_a, "linear"_a = true, "padding"_a = "zeros",
        "align_corners"_a = false,
        "run(src, grid, dst), f32 in a row: dst (images, channels, places) = images read at x and y from -1 to 1, as "
        "ONNX's GridSample has them.");
}

}  // namespace dgo
