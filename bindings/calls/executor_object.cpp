#include "calls/executor_object.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include <optional>
#include <utility>

#include <pybind11/stl.h>

#include "border/buffer.hpp"
#include "border/device_array.hpp"
#include "border/gil.hpp"
#include "common/error.hpp"
#include "library/fork_guard.hpp"
#include "memory/places.hpp"

namespace dgo {
namespace {

using Shape = std::vector<std::int64_t>;
using RefTuple = std::pair<int, std::int64_t>;
using Dims = std::pair<Shape, Shape>;  // shape, strides
using ViewTuple = std::tuple<int, std::int64_t, int, Shape, Shape>;  // slot, offset, dtype, shape, strides

std::vector<Ref> to_refs(const std::vector<RefTuple>& tuples) {
    std::vector<Ref> refs;
    for (const auto& [slot, offset] : tuples) refs.push_back({slot, offset});
    return refs;
}

py::object called(const py::object& function, const py::tuple& args) {
    PyObject* const result = gil::waiting([&] { return PyObject_Call(function.ptr(), args.ptr(), nullptr); });
    if (!result) throw py::error_already_set();
    return py::reinterpret_steal<py::object>(result);
}

// Whether two arrays share an element; true if the exact answer takes too long.
bool share_memory(py::handle a, py::handle b) {
    if (py::isinstance<DeviceArray>(a) || py::isinstance<DeviceArray>(b)) return true;
    const auto function = py::module_::import("numpy").attr("shares_memory").cast<py::object>();
    try {
        return called(function, py::make_tuple(a, b, 100000)).cast<bool>();
    } catch (py::error_already_set& error) {
        if (!error.matches(PyExc_Exception)) throw;
        return true;
    }
}

std::vector<py::object> to_objects(py::handle sequence, const std::string& who, std::size_t want) {
    if (!PyList_Check(sequence.ptr()) && !PyTuple_Check(sequence.ptr()))
        throw py::type_error(who + " must be a list or tuple of arrays, got " + Py_TYPE(sequence.ptr())->tp_name);
    std::vector<py::object> objects;
    for (const py::handle item : sequence) objects.push_back(py::reinterpret_borrow<py::object>(item));
    if (objects.size() != want)
        fail(ErrorKind::invalid_argument,
             who + ": expected " + std::to_string(want) + " arrays, got " + std::to_string(objects.size()));
    return objects;
}

void refuse_overlaps(const Executor& core, const Arguments& args) {
    const auto& inputs = core.inputs();
    const auto& outputs = core.outputs();
    const auto check = [&](std::size_t o, const Argument& other, const char* data, std::size_t owner) {
        if (!extents_overlap(args.out[o], outputs[o].layout.extent, data, other.layout.extent)) return;
        if (share_memory(args.owners[inputs.size() + o], args.owners[owner]))
            fail(ErrorKind::invalid_argument, core.name() + ": " + outputs[o].name + " shares memory with " +
                                                  other.name + "; give it memory of its own");
    };
    for (std::size_t o = 0; o < outputs.size(); ++o) {
        for (std::size_t i = 0; i < inputs.size(); ++i) check(o, inputs[i], args.in[i], i);
        for (std::size_t p = 0; p < o; ++p) check(o, outputs[p], args.out[p], inputs.size() + p);
    }
}

// Arrays over the memory of a callback's operands, valid during the call; an array that outlives the call is emptied.
class Views {
public:
    Views(const std::vector<Layout>& layouts, const std::vector<bool>& writeable, char* const* operands) {
        for (std::size_t i = 0; i < layouts.size(); ++i) {
            auto view = py::reinterpret_steal<py::object>(new_view(layouts[i], operands[i], writeable[i]));
            if (!view) throw py::error_already_set();
            views_.push_back(std::move(view));
        }
    }
    ~Views() {
        static Py_ssize_t zero = 0;
        for (const py::object& view : views_) {
            Array& array = *py::detail::array_proxy(view.ptr());
            if (Py_REFCNT(view.ptr()) == 1) continue;
            if (array.nd > 0) array.dimensions[0] = zero;
            array.data = scalar_;
        }
    }
    Views(const Views&) = delete;
    Views& operator=(const Views&) = delete;

    py::tuple tuple() const {
        py::tuple result(views_.size());
        for (std::size_t i = 0; i < views_.size(); ++i) result[i] = views_[i];
        return result;
    }

private:
    inline static char scalar_[64] = {};
    std::vector<py::object> views_;
};

int add_constant(ExecutorObject& self, py::array array, bool shared) {
    const auto text = self.core.name() + ": a constant ";
    if (!(array.flags() & py::array::c_style))
        fail(ErrorKind::invalid_argument, text + "must be contiguous; copy it with numpy.ascontiguousarray");
    if (array.dtype().attr("hasobject").cast<bool>()) throw py::type_error(text + "must not hold Python objects");
    const int slot = self.core.add_constant(static_cast<char*>(const_cast<void*>(array.data())),
                                            static_cast<std::size_t>(array.nbytes()), shared);
    self.owners.push_back(std::move(array));
    return slot;
}

void add_callback(ExecutorObject& self, py::object callable, const std::vector<ViewTuple>& tuples, std::string label) {
    if (!PyCallable_Check(callable.ptr())) throw py::type_error(self.core.name() + ": a callback must be callable");
    std::vector<Ref> refs;
    std::vector<Layout> layouts;
    std::vector<bool> writeable;
    for (const auto& [slot, offset, dtype, shape, strides] : tuples) {
        refs.push_back({slot, offset});
        layouts.emplace_back(dtype, shape, strides);
        if (!dtype_table::descr_of[static_cast<std::size_t>(dtype)])
            fail(ErrorKind::unsupported, self.core.name() + ": no NumPy dtype for operand " +
                                             std::to_string(refs.size() - 1) + " of the callback " + label);
        const bool exists = slot >= 0 && slot < self.core.slot_count();
        const SlotKind kind = exists ? self.core.slot_kind(slot) : SlotKind::scratch;
        writeable.push_back(kind == SlotKind::output || kind == SlotKind::scratch);
    }
    PyObject* const borrowed = callable.ptr();
    auto run = [borrowed, layouts, writeable](char* const* operands) {
        const AcquireGil gil;
        const auto function = py::reinterpret_borrow<py::object>(borrowed);
        const Views views(layouts, writeable, operands);
        called(function, views.tuple());
    };
    self.core.add_callback(std::move(run), refs, layouts, std::move(label));
    self.owners.push_back(std::move(callable));
}

// The steps of a plan of kernels that are the same for all sizes: labels, slots of operands, conditions and the dtypes of
// inputs and outputs. Slots are those of inputs, outputs, scratch and constants, in this order.
class PlanSteps {
public:
    using Condition = std::pair<RefTuple, bool>;
    using Step = std::tuple<std::string, std::vector<int>, std::optional<Condition>>;

    PlanSteps(std::vector<int> inputs, std::vector<int> outputs, std::vector<std::size_t> places,
              std::vector<Step> steps)
        : inputs_(std::move(inputs)), outputs_(std::move(outputs)), places_(std::move(places)),
          steps_(std::move(steps)) {}

    void fill(ExecutorObject& plan, const std::vector<Dims>& inputs, const std::vector<Dims>& outputs,
              const std::vector<std::size_t>& nbytes, const std::vector<std::size_t>& starts,
              const std::vector<std::pair<py::array, bool>>& constants, const py::list& sized) const {
        for (std::size_t i = 0; i < inputs_.size(); ++i)
            plan.core.add_input(Layout(inputs_[i], inputs.at(i).first, inputs.at(i).second));
        for (std::size_t i = 0; i < outputs_.size(); ++i)
            plan.core.add_output(Layout(outputs_[i], outputs.at(i).first, outputs.at(i).second));
        for (std::size_t i = 0; i < places_.size(); ++i)
            plan.core.add_scratch(starts.at(places_[i]), std::max<std::size_t>(nbytes.at(i), 1));
        for (const auto& [array, shared] : constants) add_constant(plan, array, shared);
        if (sized.size() != steps_.size())
            fail(ErrorKind::invalid_argument, plan.core.name() + ": the plan has " + std::to_string(steps_.size()) +
                                                  " steps, got " + std::to_string(sized.size()));
        std::vector<Ref> refs;
        for (std::size_t i = 0; i < steps_.size(); ++i) {
            const auto& [label, slots, condition] = steps_[i];
            const py::tuple step = sized[i];
            const py::tuple offsets = step[1];
            const py::list extents = step[2];
            refs.clear();
            std::vector<std::size_t> bytes;
            for (std::size_t operand = 0; operand < slots.size(); ++operand) {
                refs.push_back({slots[operand], py::int_(offsets[operand]).cast<std::int64_t>()});
                bytes.push_back(py::int_(extents[operand]).cast<std::size_t>());
            }
            plan.core.add_kernel(py::object(step[0]).cast<std::shared_ptr<Kernel>>(), refs, bytes, label);
            if (condition) plan.core.only_if({condition->first.first, condition->first.second}, condition->second);
        }
    }

private:
    std::vector<int> inputs_, outputs_;  // dtypes
    std::vector<std::size_t> places_;    // of scratch buffers, which may share one
    std::vector<Step> steps_;
};

// Python's signal handlers run in the main thread alone.
const Executor::Poll poll = [] {
    if (syscall(SYS_gettid) != getpid()) return;
    const AcquireGil gil;
    if (gil::waiting([] { return PyErr_CheckSignals(); })) throw py::error_already_set();
};

std::size_t checked_repeat(py::ssize_t repeat) {
    if (repeat < 1 || repeat > 100'000'000)
        fail(ErrorKind::invalid_argument, "repeat must be from 1 to 100000000, got " + std::to_string(repeat));
    return static_cast<std::size_t>(repeat);
}

void require_whole(const ExecutorObject& plan) {
    if (plan.cleared) fail(ErrorKind::error, plan.core.name() + ": the plan was garbage-collected");
}

// Runs one of the timing loops on checked arrays, without the GIL.
template <typename Loop>
std::vector<double> timed(const ExecutorObject& self, py::handle inputs, py::handle outputs, py::ssize_t repeat,
                          const Loop& loop) {
    const std::size_t count = checked_repeat(repeat);
    const Arguments args = checked_arguments(self, inputs, outputs);
    const py::object keep = kept(self);
    require_whole(self);
    const ReleaseGil release;
    return (self.core.*loop)(args.addresses(), count, poll);
}

std::vector<std::pair<std::string, double>> profile(const ExecutorObject& self, py::handle inputs, py::handle outputs,
                                                    py::ssize_t repeat) {
    const auto medians = timed(self, inputs, outputs, repeat, &Executor::profile);
    std::vector<std::pair<std::string, double>> rows;
    for (std::size_t i = 0; i < medians.size(); ++i) rows.emplace_back(self.core.steps()[i].label, medians[i]);
    return rows;
}

py::list describe(const ExecutorObject& self) {
    py::list rows;
    for (const Executor::Step& step : self.core.steps()) {
        py::dict row;
        row["label"] = step.label;
        row["kind"] = step_kind_name(step.kind);
        row["kernel"] = step.kernel ? py::object(py::str(step.kernel->name)) : py::none();
        row["scratchpad_bytes"] = step.partition ? step.partition->scratchpad_size() : 0;
        rows.append(std::move(row));
    }
    return rows;
}

// Shape and strides in elements of each tensor; strides of axes of size 1 are 0.
std::vector<std::pair<Shape, Shape>> layouts(const std::vector<Argument>& arguments) {
    std::vector<std::pair<Shape, Shape>> found;
    for (const auto& [layout, name, unpack] : arguments) {
        auto& [shape, strides] = found.emplace_back();
        for (int i = 0; i < layout.rank; ++i) {
            shape.push_back(layout.dims[i]);
            strides.push_back(layout.strides[i] / layout.itemsize);
        }
    }
    return found;
}

void make_collectable(PyHeapTypeObject* heap_type) {
    PyTypeObject& type = heap_type->ht_type;
    type.tp_flags |= Py_TPFLAGS_HAVE_GC;
    type.tp_traverse = [](PyObject* self, visitproc visit, void* arg) {
        Py_VISIT(Py_TYPE(self));
        if (py::detail::is_holder_constructed(self))
            for (const py::object& owner : py::cast<ExecutorObject&>(py::handle(self)).owners) Py_VISIT(owner.ptr());
        return 0;
    };
    type.tp_clear = [](PyObject* self) {
        if (!py::detail::is_holder_constructed(self)) return 0;
        auto& object = py::cast<ExecutorObject&>(py::handle(self));
        object.cleared = true;
        object.drop_owners();
        return 0;
    };
}

}  // namespace

Arguments checked_arguments(const ExecutorObject& plan, py::handle inputs, py::handle outputs) {
    const Executor& core = plan.core;
    if (!core.finalized()) fail(ErrorKind::invalid_argument, core.name() + ": finalize the plan before running it");
    Arguments args;
    args.owners = to_objects(inputs, core.name() + ": inputs", core.inputs().size());
    for (py::object& array : to_objects(outputs, core.name() + ": outputs", core.outputs().size()))
        args.owners.push_back(std::move(array));
    args.on_device.assign(args.owners.size(), false);
    const auto address = [&](const Argument& argument, std::size_t owner, bool written) {
        const auto who = core.name() + ": " + argument.name;
        const py::object& array = args.owners[owner];
        if (!core.engine() || !py::isinstance<DeviceArray>(array))
            return require_match(argument.layout, array.ptr(), who, written).data;
        args.on_device[owner] = true;
        return require_match(argument.layout, *core.engine(), array.cast<const DeviceArray&>(), who, written);
    };
    for (std::size_t i = 0; i < core.inputs().size(); ++i) args.in.push_back(address(core.inputs()[i], i, false));
    for (std::size_t o = 0; o < core.outputs().size(); ++o)
        args.out.push_back(address(core.outputs()[o], core.inputs().size() + o, true));
    refuse_overlaps(core, args);
    return args;
}

void run_plan(const ExecutorObject& plan, const Addresses& arrays) {
    require_whole(plan);
    if (!plan.core.release_gil()) return plan.core.run(arrays);
    const ReleaseGil release;
    plan.core.run(arrays, poll);
}

void bind_executor(py::module_& m) {
    fork_guard::install();
    m.def("check_fork", &fork_guard::check,
          "Raise Error in a child of fork() that cannot compute: threads of its parent did meanwhile, or a library's.");
    m.def("forked_with_one_thread", &fork_guard::has_one_thread,
          "Whether this is a child of fork() whose parent had computed, which may start no threads.");
    m.def(
        "threads_were_started", [] { fork_guard::foreign.store(true, std::memory_order_relaxed); },
        "OpenMP's threads, by others in this process: a child of fork() has none of them.");
    m.def("idle_scratch_bytes", &idle_block_bytes,
          "Scratch memory that no plan is using just now, kept for the next one.");
    m.def("drop_idle_scratch", &drop_idle_blocks);
    py::class_<ScratchLives>(m, "ScratchLives", "The first and the last step that touch each buffer of scratch.")
        .def(py::init<const std::vector<std::pair<std::int64_t, std::int64_t>>&>(), py::arg("spans"))
        .def(
            "by_size",
            [](const ScratchLives& lives, const std::vector<std::int64_t>& nbytes) {
                Places places = lives.by_size(nbytes);
                return std::tuple(std::move(places.offsets), places.total, std::move(places.shared));
            },
            py::arg("nbytes"),
            "The buffers' byte offsets, the arena's size, and whether each shares memory with larger buffers. Large "
            "ones come first, each at the lowest offset that is free while it lives.");
    py::class_<ExecutorObject>(m, "Executor", py::custom_type_setup(&make_collectable),
                               "A compiled plan: slots for arrays and the steps that work on them.\n\nBuilt by one "
                               "thread, then finalized; from then on any number of threads may run it at once.")
        .def(py::init([](std::shared_ptr<Engine> engine, std::string name) {
                 return std::make_unique<ExecutorObject>(std::move(engine), name.empty() ? "plan" : std::move(name));
             }),
             py::arg("engine").none(true), py::arg("name") = "")
        .def(
            "add_input",
            [](ExecutorObject& self, int dtype, const Shape& shape, const Shape& strides) {
                return self.core.add_input(Layout(dtype, shape, strides));
            },
            py::arg("dtype"), py::arg("shape"), py::arg("strides"), "The slot of an array that run() is given.")
        .def(
            "add_output",
            [](ExecutorObject& self, int dtype, const Shape& shape, const Shape& strides) {
                return self.core.add_output(Layout(dtype, shape, strides));
            },
            py::arg("dtype"), py::arg("shape"), py::arg("strides"))
        .def("add_constant", &add_constant, py::arg("array").noconvert(), py::arg("shared") = false,
             "A contiguous array; kept alive, not copied. shared: others keep it too, so it counts as theirs.")
        .def(
            "add_scratch",
            [](ExecutorObject& self, std::size_t offset, std::size_t nbytes) {
                return self.core.add_scratch(offset, nbytes);
            },
            py::arg("offset"), py::arg("nbytes"),
            "Part of the arena that a run has for itself; offset is a multiple of 64.")
        .def(
            "add_partition",
            [](ExecutorObject& self, std::shared_ptr<CompiledPartition> partition, const std::vector<RefTuple>& in,
               const std::vector<RefTuple>& out, std::string label) {
                self.core.add_partition(std::move(partition), to_refs(in), to_refs(out), std::move(label));
            },
            py::arg("partition").none(false), py::arg("inputs"), py::arg("outputs"), py::arg("label") = "")
        .def(
            "add_kernel",
            [](ExecutorObject& self, std::shared_ptr<Kernel> kernel, const std::vector<RefTuple>& refs,
               std::string label, const std::vector<std::size_t>& nbytes) {
                self.core.add_kernel(std::move(kernel), to_refs(refs), nbytes, std::move(label));
            },
            py::arg("kernel").none(false), py::arg("refs"), py::arg("label") = "",
            py::arg("nbytes") = std::vector<std::size_t>(),
            "nbytes: how far each operand reaches; engines on a device need it.")
        .def("add_callback", &add_callback, py::arg("callback"), py::arg("refs"), py::arg("label") = "",
             "Call with NumPy views that are valid until it returns; inputs and constants are read-only.")
        .def(
            "only_if",
            [](ExecutorObject& self, const RefTuple& flag, bool wanted) {
                self.core.only_if({flag.first, flag.second}, wanted);
            },
            py::arg("flag"), py::arg("wanted"),
            "The step added last runs only where the s32 at `flag` is, or is not, 0; for engines of the host.")
        .def(
            "finalize",
            [](ExecutorObject& self, bool release_gil, int threads) { self.core.finalize(release_gil, threads); },
            py::arg("release_gil"), py::arg("threads") = 0,
            "threads: OpenMP threads of every run; 0 for what the calling thread has set.")
        .def(
            "run",
            [](const ExecutorObject& self, py::handle inputs, py::handle outputs) {
                const Arguments args = checked_arguments(self, inputs, outputs);
                const py::object keep = kept(self);
                run_plan(self, args.addresses());
            },
            py::arg("inputs"), py::arg("outputs"),
            "Raises TypeError, ShapeError or InvalidArgumentError for arrays other than declared.")
        .def(
            "benchmark",
            [](const ExecutorObject& self, py::handle inputs, py::handle outputs, py::ssize_t repeat) {
                return timed(self, inputs, outputs, repeat, &Executor::benchmark);
            },
            py::arg("inputs"), py::arg("outputs"), py::arg("repeat"), "Seconds per execution of the native loop alone.")
        .def("profile", &profile, py::arg("inputs"), py::arg("outputs"), py::arg("repeat"),
             "(label, median seconds) of each step.")
        .def("describe", &describe,
             "Per step: label, kind (partition, kernel, callback), kernel (a name or None), scratchpad_bytes.")
        .def_property_readonly(
            "inputs", [](const ExecutorObject& self) { return layouts(self.core.inputs()); },
            "Shape and strides in elements of each; strides are 0 where an axis has a single element.")
        .def_property_readonly("outputs", [](const ExecutorObject& self) { return layouts(self.core.outputs()); })
        .def_property_readonly(
            "constants",
            [](const ExecutorObject& self) {
                py::list arrays;
                for (const py::object& owner : self.owners)
                    if (py::isinstance<py::array>(owner)) arrays.append(owner);
                return arrays;
            },
            "The arrays that were added as such.")
        .def_property_readonly("name", [](const ExecutorObject& self) { return self.core.name(); })
        .def_property_readonly("arena_bytes", [](const ExecutorObject& self) { return self.core.arena_bytes(); })
        .def_property_readonly("constant_bytes", [](const ExecutorObject& self) { return self.core.constant_bytes(); })
        .def_property_readonly("idle_contexts", [](const ExecutorObject& self) { return self.core.idle_contexts(); })
        .def_property_readonly(
            "standing",
            [](const ExecutorObject& self) {
                std::vector<std::pair<std::size_t, std::size_t>> ranges;
                for (const Executor::Range& range : self.core.standing()) ranges.emplace_back(range.begin, range.end);
                return ranges;
            },
            "Ranges of steps that one team of threads runs, known after a run with several threads.")
        .def_property_readonly("release_gil", [](const ExecutorObject& self) { return self.core.release_gil(); })
        .def_property_readonly("threads", [](const ExecutorObject& self) { return self.core.threads(); })
        .def_property_readonly("steps", [](const ExecutorObject& self) { return self.core.steps().size(); });
    py::class_<PlanSteps>(m, "PlanSteps", "The steps of a plan of kernels, as far as they are the same for all sizes.")
        .def(py::init<std::vector<int>, std::vector<int>, std::vector<std::size_t>, std::vector<PlanSteps::Step>>(),
             py::arg("inputs"), py::arg("outputs"), py::arg("places"), py::arg("steps"),
             "inputs, outputs: dtypes. places: of scratch buffers, which may share one. steps: a label, slots of "
             "operands, and a condition: its flag, and whether that must be set.")
        .def(
            "fill", &PlanSteps::fill, py::arg("plan"), py::arg("inputs"), py::arg("outputs"), py::arg("nbytes"),
            py::arg("starts"), py::arg("constants"), py::arg("steps"),
            "Adds all to a plan. inputs, outputs: shapes and strides. nbytes: of scratch buffers. starts: byte offsets "
            "of places. constants: each with whether others keep it. steps: a kernel, byte offsets and extents.");
}

}  // namespace dgo
