#include "border/line_memory.hpp"

#include <cstdint>
#include <cstring>

namespace dgo {
namespace {

// NumPy's, version 1, by which it allocates the memory of arrays.
struct Allocator {
    void* context;
    void* (*allocate)(void* context, std::size_t bytes);
    void* (*allocate_zeros)(void* context, std::size_t count, std::size_t bytes);
    void* (*resize)(void* context, void* memory, std::size_t bytes);
    void (*free)(void* context, void* memory, std::size_t bytes);
};

struct Handler {
    char name[127];
    std::uint8_t version;
    Allocator allocator;
};

// Places in NumPy's table of functions since its version 1.22.
constexpr int kSetHandler = 304, kGetHandler = 305, kDefaultHandler = 306;
constexpr std::size_t kLine = 64, kMore = kLine + sizeof(void*);

Allocator numpy_allocator;  // NumPy's own, of which the memory is

// The first line of memory that leaves room for the memory's address before it.
char* line_of(char* memory) {
    const auto address = reinterpret_cast<std::uintptr_t>(memory) + kMore - 1;
    return memory + (address / kLine * kLine - reinterpret_cast<std::uintptr_t>(memory));
}

void* at_line(void* memory) {
    if (!memory) return nullptr;
    char* const line = line_of(static_cast<char*>(memory));
    std::memcpy(line - sizeof(void*), &memory, sizeof(void*));
    return line;
}

char* memory_of(void* line) {
    char* memory;
    std::memcpy(&memory, static_cast<char*>(line) - sizeof(void*), sizeof(void*));
    return memory;
}

void* allocate(void* context, std::size_t bytes) { return at_line(numpy_allocator.allocate(context, bytes + kMore)); }

void* allocate_zeros(void* context, std::size_t count, std::size_t bytes) {
    return at_line(numpy_allocator.allocate_zeros(context, 1, count * bytes + kMore));
}

void* resize(void* context, void* line, std::size_t bytes) {
    if (!line) return allocate(context, bytes);
    const std::ptrdiff_t offset = static_cast<char*>(line) - memory_of(line);
    auto* const memory = static_cast<char*>(numpy_allocator.resize(context, memory_of(line), bytes + kMore));
    if (!memory) return nullptr;
    // the elements moved with the memory, to the same distance from its beginning
    std::memmove(line_of(memory), memory + offset, bytes);
    return at_line(memory);
}

void release(void* context, void* line, std::size_t bytes) {
    if (line) numpy_allocator.free(context, memory_of(line), bytes + kMore);
}

struct Handlers {
    PyObject* (*set)(PyObject*);
    PyObject* (*get)();
    PyObject* numpy;
    PyObject* lines;  // the capsule of the handler above
};

const Handlers& handlers() {
    static const Handlers all = [] {
        auto* const table = static_cast<void**>(PyCapsule_GetPointer(
            py::detail::import_numpy_core_submodule("multiarray").attr("_ARRAY_API").ptr(), nullptr));
        if (!table) throw py::error_already_set();
        PyObject* const numpy = *static_cast<PyObject**>(table[kDefaultHandler]);
        auto* const own = static_cast<const Handler*>(PyCapsule_GetPointer(numpy, "mem_handler"));
        if (!own) throw py::error_already_set();
        numpy_allocator = own->allocator;
        static Handler lines{"cache lines", 1, {own->allocator.context, allocate, allocate_zeros, resize, release}};
        PyObject* const capsule = PyCapsule_New(&lines, "mem_handler", nullptr);
        if (!capsule) throw py::error_already_set();
        return Handlers{reinterpret_cast<PyObject* (*)(PyObject*)>(table[kSetHandler]),
                        reinterpret_cast<PyObject* (*)()>(table[kGetHandler]), numpy, capsule};
    }();
    return all;
}

}  // namespace

void prepare_line_memory() { handlers(); }

LineMemory::LineMemory(bool wanted) {
    if (!wanted) return;
    PyObject* const current = handlers().get();
    if (current == handlers().numpy) before_ = handlers().set(handlers().lines);
    Py_XDECREF(current);
    // without a handler the array lies where NumPy's do
    if (!before_) PyErr_Clear();
}

LineMemory::~LineMemory() {
    if (!before_) return;
    Py_XDECREF(handlers().set(before_));
    Py_DECREF(before_);
}

}  // namespace dgo
