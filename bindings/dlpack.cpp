// DLPack tensors of CPU memory to NumPy arrays and back, for every dtype that NumPy has through ml_dtypes.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include "guard.hpp"

namespace py = pybind11;

namespace dgo {
namespace {

// The structs of the DLPack 1.0 ABI.
struct Device {
    std::int32_t type, id;
};
struct DataType {
    std::uint8_t code, bits;
    std::uint16_t lanes;
};
struct Tensor {
    void* data;
    Device device;
    std::int32_t ndim;
    DataType dtype;
    std::int64_t* shape;
    std::int64_t* strides;  // in elements; null: row-major
    std::uint64_t byte_offset;
};
struct Managed {
    Tensor tensor;
    void* context;
    void (*deleter)(Managed*);
};
struct Versioned {
    std::uint32_t major, minor;
    void* context;
    void (*deleter)(Versioned*);
    std::uint64_t flags;
    Tensor tensor;
};

constexpr std::uint64_t kReadOnly = 1;
constexpr std::int32_t kCpu = 1;
constexpr const char* kName = "dltensor";
constexpr const char* kVersionedName = "dltensor_versioned";

[[noreturn]] void refuse(const std::string& what) { fail(ErrorKind::invalid_argument, "from_dlpack: " + what); }

template <typename M>
void release(void* managed) {
    auto* tensor = static_cast<M*>(managed);
    if (tensor->deleter) tensor->deleter(tensor);
}

py::array as_array(const Tensor& t, bool read_only, const py::dict& dtypes, py::capsule owner) {
    if (t.device.type != kCpu)
        refuse("the tensor is on device type " + std::to_string(t.device.type) + ", not in CPU memory; copy it there");
    if (t.dtype.lanes != 1) refuse("elements of " + std::to_string(t.dtype.lanes) + " lanes are not supported");
    const auto key = py::make_tuple(t.dtype.code, t.dtype.bits);
    if (!dtypes.contains(key))
        refuse("no dtype for DLPack type code " + std::to_string(t.dtype.code) + " of " +
            std::to_string(t.dtype.bits) + " bits");
    const auto dtype = py::dtype::from_args(dtypes[key]);
    std::vector<py::ssize_t> shape(t.shape, t.shape + t.ndim), strides(shape.size());
    py::ssize_t dense = dtype.itemsize();
    for (std::size_t i = shape.size(); i-- > 0;) {
        strides[i] = t.strides ? t.strides[i] * dtype.itemsize() : dense;
        dense *= shape[i];
    }
    py::array array(dtype, std::move(shape), std::move(strides), static_cast<char*>(t.data) + t.byte_offset, owner);
    if (read_only) array.attr("flags").attr("writeable") = false;
    return array;
}

template <typename M>
py::array take(py::capsule& capsule, const char* name, const char* used, bool read_only, const py::dict& dtypes) {
    auto* managed = static_cast<M*>(PyCapsule_GetPointer(capsule.ptr(), name));
    if (!managed) throw py::error_already_set();
    // from here on the array's owner releases the tensor
    if (PyCapsule_SetName(capsule.ptr(), used)) throw py::error_already_set();
    py::capsule owner(managed, &release<M>);
    return as_array(managed->tensor, read_only, dtypes, owner);
}

py::array import_tensor(py::capsule capsule, const py::dict& dtypes) {
    const std::string name = capsule.name() ? capsule.name() : "";
    if (name == kName) return take<Managed>(capsule, kName, "used_dltensor", false, dtypes);
    if (name == kVersionedName) {
        auto* managed = static_cast<Versioned*>(PyCapsule_GetPointer(capsule.ptr(), kVersionedName));
        if (managed->major != 1) refuse("DLPack version " + std::to_string(managed->major) + " is not known; want 1");
        const bool read_only = managed->flags & kReadOnly;
        return take<Versioned>(capsule, kVersionedName, "used_dltensor_versioned", read_only, dtypes);
    }
    refuse("the capsule is named '" + name + "'; a DLPack capsule can be used once");
}

// What an exported tensor keeps alive.
struct Export {
    py::array array;
    std::vector<std::int64_t> shape, strides;
};

template <typename M>
void drop_export(M* managed) {
    // NumPy's reference count is Python's business, and a consumer may drop the tensor on any thread
    py::gil_scoped_acquire gil;
    delete static_cast<Export*>(managed->context);
    delete managed;
}

template <typename M>
void drop_unused(PyObject* capsule, const char* name) {
    if (!PyCapsule_IsValid(capsule, name)) return;
    auto* managed = static_cast<M*>(PyCapsule_GetPointer(capsule, name));
    managed->deleter(managed);
}

template <typename M>
std::unique_ptr<M> new_tensor(const py::array& array, int code, int bits) {
    auto kept = std::make_unique<Export>();
    kept->array = array;
    for (py::ssize_t i = 0; i < array.ndim(); ++i) {
        kept->shape.push_back(array.shape(i));
        if (array.strides(i) % array.itemsize())
            fail(ErrorKind::invalid_argument, "to_dlpack: strides are no multiple of the elements; pass a copy");
        kept->strides.push_back(array.strides(i) / array.itemsize());
    }
    auto managed = std::make_unique<M>();
    managed->tensor = Tensor{const_cast<void*>(array.data()), {kCpu, 0}, static_cast<std::int32_t>(array.ndim()),
        {static_cast<std::uint8_t>(code), static_cast<std::uint8_t>(bits), 1}, kept->shape.data(),
        kept->strides.data(), 0};
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

py::object export_tensor(const py::array& array, int code, int bits, bool versioned) {
    if (versioned) {
        auto managed = new_tensor<Versioned>(array, code, bits);
        managed->major = 1;
        managed->minor = 0;
        managed->flags = array.writeable() ? 0 : kReadOnly;
        return wrap(std::move(managed), kVersionedName,
            [](PyObject* capsule) { drop_unused<Versioned>(capsule, kVersionedName); });
    }
    return wrap(new_tensor<Managed>(array, code, bits), kName,
        [](PyObject* capsule) { drop_unused<Managed>(capsule, kName); });
}

}  // namespace

void bind_dlpack(py::module_& m) {
    m.def("dlpack_import", &import_tensor, py::arg("capsule"), py::arg("dtypes"));
    m.def("dlpack_export", &export_tensor, py::arg("array").noconvert(), py::arg("code"), py::arg("bits"),
        py::arg("versioned"));
}

}  // namespace dgo
