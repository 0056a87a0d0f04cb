// DLPack tensors: those of CPU memory to NumPy arrays and back, for every dtype that NumPy has through ml_dtypes; those
// of devices to and from addresses.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "border/dlpack_abi.hpp"
#include "border/gil.hpp"
#include "common/error.hpp"

namespace py = pybind11;

namespace dgo {
namespace {

using namespace dlpack;

constexpr std::uint64_t kReadOnly = 1;
constexpr std::int32_t kMaxAxes = 32;  // of any NumPy
constexpr const char* kName = "dltensor";
constexpr const char* kVersionedName = "dltensor_versioned";

[[noreturn]] void refuse(const std::string& what) { fail(ErrorKind::invalid_argument, "from_dlpack: " + what); }

template <typename M>
void release(void* managed) {
    auto* tensor = static_cast<M*>(managed);
    if (tensor->deleter) tensor->deleter(tensor);
}

bool add_product(std::int64_t a, std::int64_t b, std::int64_t& sum) {
    std::int64_t product = 0;
    return !__builtin_mul_overflow(a, b, &product) && !__builtin_add_overflow(sum, product, &sum);
}

bool is_empty(const Tensor& t) { return std::find(t.shape, t.shape + t.ndim, 0) != t.shape + t.ndim; }

// Throws unless shape and strides describe possible memory; the lengths of a capsule's lists cannot be checked and are
// trusted.
void check_shape(const Tensor& t) {
    if (t.ndim < 0 || t.ndim > kMaxAxes)
        refuse("the tensor has " + std::to_string(t.ndim) + " axes; 0 to " + std::to_string(kMaxAxes) +
               " are possible");
    if (t.ndim && !t.shape) refuse("the tensor has " + std::to_string(t.ndim) + " axes and no shape");
    for (int i = 0; i < t.ndim; ++i)
        if (t.shape[i] < 0) refuse("the shape has the negative size " + std::to_string(t.shape[i]));
    const bool empty = is_empty(t);
    if (!t.data && !empty) refuse("the tensor has elements and a null address");
    // bytes from the lowest to after the highest element, and bytes of the dense elements
    const std::int64_t itemsize = (std::int64_t{t.dtype.bits} * t.dtype.lanes + 7) / 8;
    std::int64_t below = 0, above = itemsize, dense = itemsize;
    bool fits = true;
    for (int i = t.ndim; i-- > 0 && fits;) {
        std::int64_t bytes = 0;
        const std::int64_t size = std::max<std::int64_t>(t.shape[i], 1);
        fits = !__builtin_mul_overflow(t.strides && !empty ? t.strides[i] : 0, itemsize, &bytes) &&
               add_product(size - 1, bytes, bytes < 0 ? below : above) && !__builtin_mul_overflow(dense, size, &dense);
    }
    const auto start = reinterpret_cast<std::uintptr_t>(t.data);
    std::uintptr_t first = 0, end = 0;
    fits = fits && !__builtin_add_overflow(start, t.byte_offset, &first) && first >= std::uint64_t{0} - below &&
           !__builtin_add_overflow(first, t.strides || empty ? above : dense, &end);
    if (!fits) refuse("shape, strides and offset of the tensor span more than 64 bits can address");
}

py::array as_array(const Tensor& t, bool read_only, const py::dict& dtypes, py::capsule owner) {
    if (t.device.type != kCpu)
        refuse("the tensor is on device type " + std::to_string(t.device.type) + ", not in CPU memory; copy it there");
    if (t.dtype.lanes != 1) refuse("elements of " + std::to_string(t.dtype.lanes) + " lanes are not supported");
    check_shape(t);
    const auto key = py::make_tuple(t.dtype.code, t.dtype.bits);
    if (!dtypes.contains(key))
        refuse("no dtype for DLPack type code " + std::to_string(t.dtype.code) + " of " + std::to_string(t.dtype.bits) +
               " bits");
    const auto dtype = py::dtype::from_args(dtypes[key]);
    std::vector<py::ssize_t> shape(t.shape, t.shape + t.ndim), strides(shape.size());
    py::ssize_t dense = dtype.itemsize();
    for (std::size_t i = shape.size(); i-- > 0;) {
        strides[i] = t.strides && !is_empty(t) ? t.strides[i] * dtype.itemsize() : dense;
        dense *= std::max<py::ssize_t>(shape[i], 1);
    }
    py::array array(dtype, std::move(shape), std::move(strides), static_cast<char*>(t.data) + t.byte_offset, owner);
    if (read_only) array.attr("flags").attr("writeable") = false;
    return array;
}

struct Taken {
    const Tensor& tensor;
    bool read_only;
    py::capsule owner;
};

template <typename M>
Taken take(const py::capsule& capsule, const char* name, const char* used, bool read_only) {
    auto* managed = static_cast<M*>(PyCapsule_GetPointer(capsule.ptr(), name));
    if (!managed) throw py::error_already_set();
    // from here on the owner releases the tensor
    if (PyCapsule_SetName(capsule.ptr(), used)) throw py::error_already_set();
    return {managed->tensor, read_only, py::capsule(managed, &release<M>)};
}

Taken take(const py::capsule& capsule) {
    const std::string name = capsule.name() ? capsule.name() : "";
    if (name == kName) return take<Managed>(capsule, kName, "used_dltensor", false);
    if (name == kVersionedName) {
        auto* managed = static_cast<Versioned*>(PyCapsule_GetPointer(capsule.ptr(), kVersionedName));
        if (managed->major != 1) refuse("DLPack version " + std::to_string(managed->major) + " is not known; want 1");
        return take<Versioned>(capsule, kVersionedName, "used_dltensor_versioned", managed->flags & kReadOnly);
    }
    refuse("the capsule is named '" + name + "'; a DLPack capsule can be used once");
}

py::array import_tensor(const py::capsule& capsule, const py::dict& dtypes) {
    const Taken taken = take(capsule);
    return as_array(taken.tensor, taken.read_only, dtypes, taken.owner);
}

py::tuple open_tensor(const py::capsule& capsule) {
    const Taken taken = take(capsule);
    const Tensor& t = taken.tensor;
    check_shape(t);
    const auto list = [&](const std::int64_t* values) { return std::vector<std::int64_t>(values, values + t.ndim); };
    const py::object strides =
        t.strides && !is_empty(t) ? py::object(py::tuple(py::cast(list(t.strides)))) : py::none();
    return py::make_tuple(
        t.device.type, reinterpret_cast<std::uintptr_t>(t.data) + t.byte_offset, py::tuple(py::cast(list(t.shape))),
        strides, py::make_tuple(t.dtype.code, t.dtype.lanes == 1 ? t.dtype.bits : 0), !taken.read_only, taken.owner);
}

// The objects that an exported tensor keeps alive.
struct Export {
    py::object owner;
    std::vector<std::int64_t> shape, strides;
};

template <typename M>
void drop_export(M* managed) {
    // dropping the array needs the GIL, but a consumer may drop the tensor on any thread, also after the interpreter
    // has ended: then the memory is freed with the process
    const TryAcquireGil gil;
    if (!gil) return;
    delete static_cast<Export*>(managed->context);
    delete managed;
}

template <typename M>
void drop_unused(PyObject* capsule, const char* name) {
    if (!PyCapsule_IsValid(capsule, name)) return;
    auto* managed = static_cast<M*>(PyCapsule_GetPointer(capsule, name));
    managed->deleter(managed);
}

struct Source {
    void* data;
    Device device;
    DataType dtype;
    bool writable;
    Export kept;
};

template <typename M>
std::unique_ptr<M> new_tensor(Source source) {
    auto kept = std::make_unique<Export>(std::move(source.kept));
    auto managed = std::make_unique<M>();
    managed->tensor = Tensor{source.data,
                             source.device,
                             static_cast<std::int32_t>(kept->shape.size()),
                             source.dtype,
                             kept->shape.data(),
                             kept->strides.data(),
                             0};
    managed->deleter = &drop_export<M>;
    managed->context = kept.release();
    return managed;
}

template <typename M>
py::object wrap(std::unique_ptr<M> managed, const char* name, PyCapsule_Destructor destructor) {
    PyObject* capsule = PyCapsule_New(managed.get(), name, destructor);
    if (!capsule) {
        drop_export(managed.release());
        throw py::error_already_set();
    }
    managed.release();
    return py::reinterpret_steal<py::object>(capsule);
}

py::object export_source(Source source, bool versioned) {
    if (versioned) {
        const bool writable = source.writable;
        auto managed = new_tensor<Versioned>(std::move(source));
        managed->major = 1;
        managed->minor = 0;
        managed->flags = writable ? 0 : kReadOnly;
        return wrap(std::move(managed), kVersionedName,
                    [](PyObject* capsule) { drop_unused<Versioned>(capsule, kVersionedName); });
    }
    return wrap(new_tensor<Managed>(std::move(source)), kName,
                [](PyObject* capsule) { drop_unused<Managed>(capsule, kName); });
}

DataType data_type(int code, int bits) { return {static_cast<std::uint8_t>(code), static_cast<std::uint8_t>(bits), 1}; }

py::object export_tensor(const py::array& array, int code, int bits, bool versioned) {
    if (!array.itemsize()) fail(ErrorKind::invalid_argument, "to_dlpack: the elements have no bytes");
    Export kept{array, {}, {}};
    for (py::ssize_t i = 0; i < array.ndim(); ++i) {
        kept.shape.push_back(array.shape(i));
        if (array.strides(i) % array.itemsize())
            fail(ErrorKind::invalid_argument, "to_dlpack: strides are no multiple of the elements; pass a copy");
        kept.strides.push_back(array.strides(i) / array.itemsize());
    }
    return export_source(
        {const_cast<void*>(array.data()), {kCpu, 0}, data_type(code, bits), array.writeable(), std::move(kept)},
        versioned);
}

py::object export_memory(py::object owner, std::uintptr_t address, std::vector<std::int64_t> shape,
                         std::vector<std::int64_t> strides, std::pair<int, int> dtype, std::pair<int, int> device,
                         bool writable, bool versioned) {
    if (shape.size() != strides.size())
        fail(ErrorKind::invalid_argument,
             "to_dlpack: " + std::to_string(strides.size()) + " strides for " + std::to_string(shape.size()) + " axes");
    return export_source({reinterpret_cast<void*>(address),
                          {device.first, device.second},
                          data_type(dtype.first, dtype.second),
                          writable,
                          {std::move(owner), std::move(shape), std::move(strides)}},
                         versioned);
}

}  // namespace

void bind_dlpack(py::module_& m) {
    m.def("dlpack_import", &import_tensor, py::arg("capsule"), py::arg("dtypes"));
    m.def("dlpack_open", &open_tensor, py::arg("capsule"),
          "The device type, address, shape, strides in elements, (type code, bits), whether writable, owner.");
    m.def("dlpack_export_memory", &export_memory, py::arg("owner"), py::arg("address"), py::arg("shape"),
          py::arg("strides"), py::arg("dtype"), py::arg("device"), py::arg("writable"), py::arg("versioned"));
    m.def("dlpack_export", &export_tensor, py::arg("array").noconvert(), py::arg("code"), py::arg("bits"),
          py::arg("versioned"));
}

}  // namespace dgo
