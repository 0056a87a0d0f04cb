#include "border/device_array.hpp"

#include <cstdint>
#include <utility>
#include <vector>

#include <pybind11/stl.h>

#include "border/buffer.hpp"
#include "border/gil.hpp"
#include "common/error.hpp"
#include "graph/logical_tensor.hpp"

namespace dgo {
namespace {

bool same_elements(const Layout& a, const Layout& b) {
    return a.dtype == b.dtype && a.rank == b.rank && a.dims == b.dims && (a.extent == 0 || a.strides == b.strides);
}

// Bytes from the first element to after the last one, gaps included.
void copy(const DeviceArray& self, const py::array& host, bool to_host) {
    const std::size_t bytes = self.layout.extent;
    if (!(host.flags() & py::array::c_style) || static_cast<std::size_t>(host.nbytes()) != bytes)
        fail(ErrorKind::invalid_argument, "DeviceArray: copies need a contiguous array of " + std::to_string(bytes) +
                                              " bytes, got one of " + std::to_string(host.nbytes()));
    if (to_host && !host.writeable()) fail(ErrorKind::invalid_argument, "DeviceArray: the array must be writable");
    char* const data = static_cast<char*>(const_cast<void*>(host.data()));
    const py::object keep = kept(self);
    const ReleaseGil release;
    if (to_host)
        self.memory().read(data, bytes);
    else
        self.memory().write(data, bytes);
}

}  // namespace

DeviceArray::DeviceArray(std::shared_ptr<const Engine> engine_, int dtype, const std::vector<std::int64_t>& shape)
    : engine(std::move(engine_)), layout(dtype, shape, dense_strides(shape)), writable(true),
      memory_(*engine, layout.extent) {}

DeviceArray::DeviceArray(std::shared_ptr<const Engine> engine_, Layout given, char* data, bool writable,
                         py::object owner)
    : engine(std::move(engine_)), layout(std::move(given)), writable(writable), owner_(std::move(owner)),
      memory_(*engine, layout.extent, data) {
    if (layout.extent && !is_aligned(data, layout.itemsize))
        fail(ErrorKind::invalid_argument, "DeviceArray: the memory must start at a multiple of its item size, " +
                                              std::to_string(layout.itemsize) + " bytes; copy the array");
}

char* require_match(const Layout& layout, const Engine& engine, const DeviceArray& array, const std::string& who,
                    bool written) {
    if (array.engine.get() != &engine)
        fail(ErrorKind::invalid_argument,
             who + " is in memory of " + array.engine->str() + ", the plan runs on " + engine.str() +
                 "; take it there through the host, DeviceArray.from_numpy(a.to_numpy(), engine)");
    if (!same_elements(layout, array.layout))
        fail(ErrorKind::invalid_argument, who + " must be " + layout.str() + ", got " + array.str());
    if (written && !array.writable) fail(ErrorKind::invalid_argument, who + " must be writable");
    return array.data();
}

void bind_device_array(py::module_& m) {
    using Ints = std::vector<std::int64_t>;
    py::class_<DeviceArray>(
        m, "DeviceArrayBase",
        "An array in memory of an engine: newly allocated and row-major, or over memory of another owner.")
        .def(py::init([](std::shared_ptr<Engine> engine, int dtype, const Ints& shape) {
                 return std::make_unique<DeviceArray>(std::move(engine), dtype, shape);
             }),
             py::arg("engine").none(false), py::arg("dtype"), py::arg("shape"))
        .def(py::init([](std::shared_ptr<Engine> engine, int dtype, const Ints& shape, const Ints& strides,
                         std::uintptr_t address, bool writable, py::object owner) {
                 return std::make_unique<DeviceArray>(std::move(engine), Layout(dtype, shape, strides),
                                                      reinterpret_cast<char*>(address), writable, std::move(owner));
             }),
             py::arg("engine").none(false), py::arg("dtype"), py::arg("shape"), py::arg("strides"), py::arg("address"),
             py::arg("writable"), py::arg("owner"))
        .def_property_readonly(
            "extent", [](const DeviceArray& a) { return a.layout.extent; },
            "Bytes from the first element to behind the last one.")
        .def_property_readonly("writable", [](const DeviceArray& a) { return a.writable; })
        .def_property_readonly("address",
                               [](const DeviceArray& a) { return reinterpret_cast<std::uintptr_t>(a.data()); })
        .def(
            "_read", [](const DeviceArray& a, const py::array& target) { copy(a, target, true); },
            py::arg("target").noconvert(), "All `extent` bytes into a contiguous array.")
        .def(
            "_write", [](const DeviceArray& a, const py::array& source) { copy(a, source, false); },
            py::arg("source").noconvert());
}

}  // namespace dgo
