// TensorMarks: tells whether tensors of PyTorch have changed.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
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
constexpr std::size_t kPlaces = 16;
constexpr std::size_t kWidth = 16;  // bytes of a place
constexpr std::size_t kAhead = 3;  // tensors whose places are on their way

// Where a tensor's elements lie, and their version.
struct Memory {
    bool operator==(const Memory& other) const {
        if (data != other.data || version != other.version || rank != other.rank || dtype != other.dtype) return false;
        for (int i = 0; i < 2 * rank; ++i)
            if (sizes[static_cast<std::size_t>(i)] != other.sizes[static_cast<std::size_t>(i)]) return false;
        return true;
    }

    const char* data = nullptr;
    std::int64_t version = kNotCounted;
    int rank = 0, dtype = 0, bits = 0;
    std::array<std::int64_t, 2 * kMaxRank> sizes;  // shape and strides
};

// A hash of the bytes at fixed places of a tensor. Writes that no version counts, and new elements at the address of freed ones,
// change them, unless they leave these places as they are.
class Fingerprint {
public:
    // False if the extents are not those of memory.
    bool take(const Memory& memory) {
        const std::int64_t* const shape = memory.sizes.data();
        const std::int64_t* const strides = shape + memory.rank;
        std::int64_t count = 1, last = 0, reach;
        for (int i = 0; i < memory.rank; ++i) {
            if (shape[i] < 0 || strides[i] < 0 || __builtin_mul_overflow(count, shape[i], &count)) return false;
            if (__builtin_mul_overflow(shape[i] - 1, strides[i], &reach) || __builtin_add_overflow(last, reach, &last))
                return false;
        }
        places_ = 0;
        if (!count) return true;
        if (!memory.data) return false;
        if (last + 1 == count) {
            std::int64_t bits;
            if (__builtin_mul_overflow(count, std::int64_t{memory.bits}, &bits)) return false;
            take_dense(memory.data, bits / 8 + (bits % 8 != 0));
        } else if (memory.bits % 8 == 0 && memory.bits <= 8 * static_cast<int>(kWidth)) {
            take_strided(memory, count);
        } else {
            return false;
        }
        hash_ = hash(memory.data);
        return true;
    }

    bool fits(const char* data) const { return hash(data) == hash_; }

    void prefetch(const char* data) const {
        for (std::size_t i = 0; i < places_; ++i) __builtin_prefetch(data + offsets_[i], 0, 2);
    }

private:
    // A place in a part, at no regular distance: filters of equal size would all be read at the same tap.
    static std::int64_t place(std::int64_t part, std::int64_t choices) {
        const std::uint64_t mixed = (static_cast<std::uint64_t>(part) + 1) * kKey;
        return static_cast<std::int64_t>((mixed >> 32) % static_cast<std::uint64_t>(choices));
    }

    void take_dense(const char* data, std::int64_t bytes) {
        constexpr std::int64_t width = kWidth, most = width * kPlaces;
        width_ = static_cast<std::size_t>(std::min(bytes, width));
        places_ = bytes > most ? kPlaces : static_cast<std::size_t>((bytes + width - 1) / width);
        for (std::size_t i = 0; i < places_; ++i) {
            const auto part = static_cast<std::int64_t>(i);
            offsets_[i] = bytes > most ? place_in_part(data, bytes / std::int64_t{kPlaces}, part)
                                       : std::min(part * width, bytes - static_cast<std::int64_t>(width_));
        }
    }

    // Prefers elements that are not all zero, as products of zeros are zeros.
    static std::int64_t place_in_part(const char* data, std::int64_t size, std::int64_t part) {
        constexpr std::int64_t width = kWidth;
        const std::int64_t begin = part * size, end = begin + size - width;
        const std::int64_t chosen = (begin + place(part, size - width + 1)) / width * width;
        std::int64_t offset = chosen;
        while (is_zero(data + offset) && offset + width <= end) offset += width;
        if (!is_zero(data + offset)) return offset;
        for (offset = begin; is_zero(data + offset) && offset + width <= chosen;) offset += width;
        return is_zero(data + offset) ? chosen : offset;
    }

    void take_strided(const Memory& memory, std::int64_t count) {
        width_ = static_cast<std::size_t>(memory.bits / 8);
        places_ = static_cast<std::size_t>(std::min(count, static_cast<std::int64_t>(kPlaces)));
        const std::int64_t size = count / static_cast<std::int64_t>(places_);
        for (std::size_t i = 0; i < places_; ++i) {
            const auto part = static_cast<std::int64_t>(i);
            std::int64_t number = part * size + place(part, size);
            offsets_[i] = 0;
            for (int axis = memory.rank - 1; axis >= 0; --axis) {
                const std::int64_t extent = memory.sizes[static_cast<std::size_t>(axis)];
                const std::int64_t stride = memory.sizes[static_cast<std::size_t>(memory.rank + axis)];
                offsets_[i] += number % extent * stride * static_cast<std::int64_t>(width_);
                number /= extent;
            }
        }
    }

    static bool is_zero(const char* place) {
        const Words words = words_at(place, kWidth);
        return !(words[0] | words[1]);
    }

    using Words = std::array<std::uint64_t, 2>;
    static Words words_at(const char* place, std::size_t width) {
        Words words{};
        std::memcpy(words.data(), place, width);
        return words;
    }

    // Sums products of the places' words, each with keys of its own, so that equal changes do not cancel.
    std::uint64_t hash(const char* data) const {
        std::uint64_t sum = 0, key = kKey;
        for (std::size_t i = 0; i < places_; ++i, key += kKey) {
            const char* const place = data + offsets_[i];
            const Words words = width_ == kWidth ? words_at(place, kWidth) : words_at(place, width_);
            const unsigned __int128 product = static_cast<unsigned __int128>(words[0] ^ key) * (words[1] ^ ~key);
            sum += static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
        }
        return sum;
    }

    static constexpr std::uint64_t kKey = 0x9E3779B97F4A7C15u;

    std::size_t places_ = 0, width_ = kWidth;
    std::uint64_t hash_ = 0;
    std::array<std::int64_t, kPlaces> offsets_;
};

// The mark of a tensor's values.
struct Mark {
    // The memory of weights is seldom in caches, as calls read packed weights.
    void prefetch() const { fingerprint.prefetch(memory.data); }

    Memory memory;
    Fingerprint fingerprint;
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

bool read_memory(PyObject* tensor, Memory& mark) {
    const dlpack::ExchangeApi* const api = exchange_api(Py_TYPE(tensor));
    dlpack::Tensor t;
    if (!api || api->borrow(tensor, &t) || t.ndim < 0 || t.ndim > kMaxRank || t.device.type != dlpack::kCpu ||
        is_negated(tensor, t))
        return false;
    mark.data = t.data ? static_cast<const char*>(t.data) + t.byte_offset : nullptr;
    mark.rank = t.ndim;
    mark.bits = t.dtype.bits * t.dtype.lanes;
    mark.dtype = t.dtype.code << 24 | t.dtype.bits << 16 | t.dtype.lanes;
    std::int64_t dense = 1;
    for (int i = t.ndim - 1; i >= 0; --i) {
        mark.sizes[static_cast<std::size_t>(i)] = t.shape[i];
        mark.sizes[static_cast<std::size_t>(t.ndim + i)] = t.strides ? t.strides[i] : dense;
        if (!t.strides && __builtin_mul_overflow(dense, t.shape[i], &dense)) return false;
    }
    return true;
}

// Whether the tensor is unchanged; false if it cannot be read any more.
bool is_same(const Marked& marked, PyObject* tensor) {
    if (marked.tensor.ptr() != tensor) return false;
    const Mark& mark = marked.mark;
    Memory now;
    const bool counted = mark.memory.version != kNotCounted;
    if ((counted && !read_version(tensor, now.version)) || !read_memory(tensor, now)) {
        PyErr_Clear();
        return false;
    }
    return now == mark.memory && mark.fingerprint.fits(now.data);
}

PyObject* marks_fit(PyObject* self, PyObject* sequence) {
    if (!PyList_CheckExact(sequence) && !PyTuple_CheckExact(sequence)) {
        PyErr_SetString(PyExc_TypeError, "fit() takes a list or tuple of tensors");
        return nullptr;
    }
    return translated<PyObject*>(nullptr, [&] {
        const auto& tensors = boxed<Marks>(self).tensors;
        bool same = tensors.size() == static_cast<std::size_t>(PySequence_Fast_GET_SIZE(sequence));
        for (std::size_t i = 0; same && i < tensors.size(); ++i) {
            if (i + kAhead < tensors.size()) tensors[i + kAhead].mark.prefetch();
            same = is_same(tensors[i], PySequence_Fast_GET_ITEM(sequence, static_cast<Py_ssize_t>(i)));
        }
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
            Memory& memory = marked.mark.memory;
            if ((counted && !read_version(tensor.ptr(), memory.version)) || !read_memory(tensor.ptr(), memory) ||
                !marked.mark.fingerprint.take(memory)) {
                if (PyErr_Occurred()) throw py::error_already_set();
                fail(ErrorKind::unsupported, "TensorMarks: a tensor whose memory cannot be read");
            }
        }
        return new_boxed(type, std::move(marks));
    });
}

PyMethodDef marks_methods[] = {
    {"fit", &marks_fit, METH_O,
     "fit(self, tensors: list[Any] | tuple[Any, ...], /) -> bool\n\nWhether these are the same, and have the same "
     "version and the same elements at some fixed places. Inference tensors have no version."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

PyObject* make_tensor_marks_type() {
    return make_boxed_type<Marks>(
        "dnnl_graph_ops._core.TensorMarks",
        "PyTorch's tensors as they are now: the objects, where and how their elements lie, their versions, and their "
        "elements at 16 places of 16 bytes.",
        &marks_new, {{Py_tp_methods, marks_methods}});
}

}  // namespace dgo
