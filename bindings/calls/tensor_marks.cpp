// TensorMarks: tells whether tensors of PyTorch have changed.
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "border/lent.hpp"
#include "calls/boxed.hpp"
#include "calls/call.hpp"
#include "common/error.hpp"

namespace dgo {
namespace {

constexpr std::int64_t kNotCounted = -1;  // no version: an inference tensor

// The mark of a tensor's values: its memory, layout and version.
struct Mark {
    bool operator==(const Mark& other) const {
        if (data != other.data || version != other.version || rank != other.rank || dtype != other.dtype) return false;
        for (int i = 0; i < 2 * rank; ++i)
            if (sizes[static_cast<std::size_t>(i)] != other.sizes[static_cast<std::size_t>(i)]) return false;
        return true;
    }

    const void* data = nullptr;
    std::int64_t version = kNotCounted;
    int rank = 0, dtype = 0;
    std::array<std::int64_t, 2 * kMaxRank> sizes;  // shape and strides
};

struct Marked {
    py::object tensor;  // held, so that no other comes to lie in its place
    Mark mark;
};

struct Marks {
    template <typename Visit>
    int each(Visit&& visit) const {
        for (const Marked& marked : tensors)
            if (const int stop = visit(marked.tensor.ptr())) return stop;
        return 0;
    }
    void clear() { const auto dropped = std::exchange(tensors, {}); }

    std::vector<Marked> tensors;
};

// False with a Python error set.
bool read_version(PyObject* tensor, std::int64_t& version) {
    static PyObject* const name = PyUnicode_InternFromString("_version");
    PyObject* const number = PyObject_GetAttr(tensor, name);
    if (!number) return false;
    version = PyLong_AsLongLong(number);
    Py_DECREF(number);
    return version != -1 || !PyErr_Occurred();
}

bool read_memory(PyObject* tensor, Mark& mark) {
    const dlpack::ExchangeApi* const api = exchange_api(Py_TYPE(tensor));
    dlpack::Tensor t;
    if (!api || api->borrow(tensor, &t) || t.ndim < 0 || t.ndim > kMaxRank) return false;
    mark.data = static_cast<const char*>(t.data) + t.byte_offset;
    mark.rank = t.ndim;
    mark.dtype = t.dtype.code << 24 | t.dtype.bits << 16 | t.dtype.lanes;
    for (int i = 0; i < t.ndim; ++i) {
        mark.sizes[static_cast<std::size_t>(i)] = t.shape[i];
        mark.sizes[static_cast<std::size_t>(t.ndim + i)] = t.strides ? t.strides[i] : 0;
    }
    return true;
}

// Whether the tensor is unchanged; false if it cannot be read any more.
bool is_same(const Marked& marked, PyObject* tensor) {
    if (marked.tensor.ptr() != tensor) return false;
    Mark now;
    const bool counted = marked.mark.version != kNotCounted;
    if ((counted && !read_version(tensor, now.version)) || !read_memory(tensor, now)) {
        PyErr_Clear();
        return false;
    }
    return now == marked.mark;
}

PyObject* marks_fit(PyObject* self, PyObject* sequence) {
    if (!PyList_CheckExact(sequence) && !PyTuple_CheckExact(sequence)) {
        PyErr_SetString(PyExc_TypeError, "fit() takes a list or tuple of tensors");
        return nullptr;
    }
    return translated<PyObject*>(nullptr, [&] {
        const auto& tensors = boxed<Marks>(self).tensors;
        bool same = tensors.size() == static_cast<std::size_t>(PySequence_Fast_GET_SIZE(sequence));
        for (std::size_t i = 0; same && i < tensors.size(); ++i)
            same = is_same(tensors[i], PySequence_Fast_GET_ITEM(sequence, static_cast<Py_ssize_t>(i)));
        return py::bool_(same).release().ptr();
    });
}

PyObject* marks_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
    static const char* keywords[] = {"tensors", nullptr};
    PyObject* sequence;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O:TensorMarks", const_cast<char**>(keywords), &sequence))
        return nullptr;
    return translated<PyObject*>(nullptr, [&]() -> PyObject* {
        auto marks = std::make_unique<Marks>();
        for (const py::handle tensor : py::reinterpret_borrow<py::iterable>(sequence)) {
            Marked& marked = marks->tensors.emplace_back();
            marked.tensor = py::reinterpret_borrow<py::object>(tensor);
            const bool counted = !tensor.attr("is_inference")().cast<bool>();
            if ((counted && !read_version(tensor.ptr(), marked.mark.version)) ||
                !read_memory(tensor.ptr(), marked.mark)) {
                if (PyErr_Occurred()) throw py::error_already_set();
                fail(ErrorKind::unsupported, "TensorMarks: a tensor whose memory cannot be read");
            }
        }
        return new_boxed(type, std::move(marks));
    });
}

PyMethodDef marks_methods[] = {
    {"fit", &marks_fit, METH_O,
     "fit(self, tensors: list[Any] | tuple[Any, ...], /) -> bool\n\nWhether these are the same, and were not written "
     "since. Inference tensors have no version."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

PyObject* make_tensor_marks_type() {
    return make_boxed_type<Marks>(
        "dnnl_graph_ops._core.TensorMarks",
        "PyTorch's tensors as they are now: the objects, where and how their elements lie, and their versions.",
        &marks_new, {{Py_tp_methods, marks_methods}});
}

}  // namespace dgo
