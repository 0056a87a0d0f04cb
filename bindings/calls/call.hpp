// The way from a Python call to a plan: shared by compiled nets and by the cache of one-shot functions.
#pragma once

#include <cstddef>
#include <cstdint>

#include <pybind11/pybind11.h>

#include "border/buffer.hpp"
#include "border/translated.hpp"
#include "calls/executor_object.hpp"

namespace dgo {

// Calls with more arrays on either side take the slow path; steps of streams have some hundred.
inline constexpr std::size_t kMaxArguments = 512;
// Functions with more arguments take the slow path: `absent` has a bit for each.
inline constexpr std::size_t kMaxOptional = 64;

// The arrays of one call, borrowed. `out` counts only if `out_given`, otherwise results are allocated.
struct Call {
    const Array& input(std::size_t i) const { return *py::detail::array_proxy(in[i]); }
    const Array& output(std::size_t o) const { return *py::detail::array_proxy(out[o]); }

    // Takes argument number i of a function: an array or None.
    void add(PyObject* argument, std::size_t i) {
        if (argument == Py_None)
            absent |= std::uint64_t{1} << i;
        else
            in[inputs++] = argument;
    }
    // Takes the argument out= (null or None: not given) for so many results; false if it is not an array, or for
    // several results a tuple or list of arrays.
    bool set_out(PyObject* argument, std::size_t results);
    // Whether the plan can write the results: given arrays have the declared layout, are writable and do not overlap.
    bool fits_results(const Executor& plan) const;

    PyObject* in[kMaxArguments];
    PyObject* out[kMaxArguments];
    std::size_t inputs = 0, outputs = 0;
    std::uint64_t absent = 0;  // a bit for each argument that is None and stands in no `in`
    bool out_given = false;
};

// A finalized plan and the Python object that owns it.
struct PlanRef {
    // Throws TypeError unless it is an Executor, an error of the package unless it is finalized.
    explicit PlanRef(py::object executor);

    py::object executor;
    ExecutorObject* plan;
};

// Throws unless results can be allocated row-major.
void require_row_major_results(const Executor& plan);

// Runs a plan that matches the arrays of the call. New reference, or null with a Python error set.
PyObject* run_call(const PlanRef& plan, const Call& call) noexcept;

// Reads a size that must not be negative; false with a Python error set.
bool read_size(PyObject* object, const char* what, std::size_t& size);

class PlanStore;
// The store inside a PlanCache; null with a Python error set for anything else.
PlanStore* store_in(PyObject* object);

PyObject* make_net_type();
PyObject* make_plan_cache_type();
PyObject* make_tensor_call_type();
PyObject* make_tensor_marks_type();

}  // namespace dgo
