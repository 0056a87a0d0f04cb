// The execution provider: what ONNX Runtime asks for goes to `dnnl_graph_ops.onnxruntime.provider`, which claims nodes
// and compiles them; runs of compiled nodes find their plan here, without Python, unless their sizes are new.
#include <atomic>
#include <charconv>
#include <cstring>
#include <exception>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_set>
#include <utility>

#include <pybind11/pybind11.h>

#include "border/buffer.hpp"
#include "border/gil.hpp"
#include "calls/executor_object.hpp"
#include "calls/plan_store.hpp"
#include "common/error.hpp"
#include "library/fork_guard.hpp"
#include "onnxruntime/abi.hpp"
#include "onnxruntime/session_graph.hpp"
#include "plan/call_scope.hpp"

namespace dgo::ort {
namespace {

constexpr const char* kName = "DnnlGraphOpsExecutionProvider";
constexpr const char* kVendor = "dnnl_graph_ops";
// The option of the provider as ONNX Runtime keeps it among those of a session: a number of threads.
constexpr const char* kThreads = "ep.dnnlgraphopsexecutionprovider.threads";
constexpr std::size_t kMostSizes = 32;  // plans that a node keeps at hand
constexpr int kMostTries = 3;           // of a call of Python that is interrupted

// Calls `f`, and returns its error as a status; nothing is thrown across the border to ONNX Runtime.
template <typename F>
Status* guarded(const Api& api, F&& f) noexcept {
    try {
        f();
        return nullptr;
    } catch (const NativeError& error) {
        const bool unsupported = error.kind == ErrorKind::unsupported;
        return api.CreateStatus(static_cast<int>(unsupported ? ErrorCode::not_implemented : ErrorCode::fail),
                                error.what());
    } catch (const std::exception& error) {
        return api.CreateStatus(static_cast<int>(ErrorCode::fail), error.what());
    } catch (...) {
        return api.CreateStatus(static_cast<int>(ErrorCode::fail), "dnnl_graph_ops: unknown error");
    }
}

// Whether Ctrl-C has ended a call of Python in this thread. The interpreter is told at the end of `in_python`.
thread_local bool interrupted = false;

struct TellInterrupt {
    ~TellInterrupt() {
        if (std::exchange(interrupted, false)) PyErr_SetInterrupt();
    }
};

// Calls `f`, which returns a new reference or null. If Ctrl-C ends it, it is called again: the interrupt is raised behind
// ONNX Runtime's call, as one that comes while ONNX Runtime's own kernels run.
template <typename F>
py::object again_if_interrupted(F&& f) {
    PyObject* result = gil::waiting(f);
    for (int tries = 1; !result && PyErr_ExceptionMatches(PyExc_KeyboardInterrupt) && tries < kMostTries; ++tries) {
        interrupted = true;
        PyErr_Clear();
        result = gil::waiting(f);
    }
    if (!result) throw py::error_already_set();
    return py::reinterpret_steal<py::object>(result);
}

// Calls `f` with the GIL; errors of Python are thrown as their message, as none may outlast the GIL.
template <typename F>
void in_python(F&& f) {
    const TryAcquireGil gil;
    if (!gil) fail(ErrorKind::error, "dnnl_graph_ops: the Python interpreter has ended");
    const TellInterrupt at_end;
    try {
        f();
    } catch (py::error_already_set& error) {
        interrupted = interrupted || error.matches(PyExc_KeyboardInterrupt);
        const py::object value = error.value();
        const std::string problem =
            std::string(Py_TYPE(value.ptr())->tp_name) + ": " +
            again_if_interrupted([&] { return PyObject_Str(value.ptr()); }).template cast<std::string>();
        fail(ErrorKind::error, problem);
    }
}

// Calls a function of `dnnl_graph_ops.onnxruntime.provider`.
py::object python(const char* function, const py::tuple& arguments) {
    const py::object callee = py::module_::import("dnnl_graph_ops.onnxruntime.provider").attr(function);
    return again_if_interrupted([&] { return PyObject_CallObject(callee.ptr(), arguments.ptr()); });
}

// References to Python objects that threads without the GIL drop: leaked where the interpreter is gone.
class Held {
public:
    Held() = default;
    explicit Held(py::object object) : object_(std::move(object)) {}
    Held(Held&& other) noexcept = default;
    Held& operator=(Held&&) = delete;
    ~Held() {
        if (!object_) return;
        const TryAcquireGil gil;
        if (gil)
            gil::drop(object_);
        else
            object_.release();
    }

    const py::object& get() const { return object_; }

private:
    py::object object_;
};

// Returns the number of threads that the options of a session state for the provider; 0: none.
int threads_of(const Api& api, const SessionOptions* options) {
    if (!api.get<int>(api.HasSessionConfigEntry, options, kThreads)) return 0;
    char text[16] = {};
    std::size_t bytes = sizeof text;
    int threads = 0;
    Status* const status = api.GetSessionConfigEntry(options, kThreads, text, &bytes);
    if (status) {
        api.ReleaseStatus(status);  // the text is longer than any number of threads
    } else {
        const char* const end = text + std::strlen(text);
        const auto [at, error] = std::from_chars(text, end, threads);
        if (error != std::errc() || at != end) threads = 0;
    }
    if (threads < 1 || threads > 4096)
        fail(ErrorKind::invalid_argument, "dnnl_graph_ops: the option 'threads' is a number from 1 to 4096");
    return threads;
}

// A plan for known sizes of all inputs.
struct Sized {
    std::vector<std::int64_t> dims;  // of all inputs, behind one another
    int threads;
    Held executor;
    const ExecutorObject* plan;
};

// A compiled node: a net, and the plans for sizes that came last.
struct Compiled : ComputeInfo {
    Compiled(const Api& api, int threads, py::object net, const py::handle& ins, const py::handle& outs)
        : api(api), threads(threads), net(std::move(net)) {
        for (const py::handle item : ins) inputs.push_back(item.cast<std::size_t>());
        for (const py::handle item : outs) outputs.push_back(item.cast<std::size_t>());
        create_state = [](ComputeInfo* self, ComputeContext*, void** state) noexcept -> Status* {
            *state = self;
            return nullptr;
        };
        compute = [](ComputeInfo* self, void*, KernelContext* context) noexcept -> Status* {
            auto& compiled = static_cast<Compiled&>(*self);
            return guarded(compiled.api, [&] { compiled.run(context); });
        };
        release_state = [](ComputeInfo*, void*) noexcept {};
        const std::lock_guard lock(all_mutex);
        all().insert(this);
    }
    ~Compiled() {
        const std::lock_guard lock(all_mutex);
        all().erase(this);
    }
    Compiled(const Compiled&) = delete;
    Compiled& operator=(const Compiled&) = delete;

    using Plans = std::list<std::shared_ptr<const Sized>>;

    // Moves the plans that are to leave to other ones; needs the lock.
    template <typename Leaves>
    void take(Plans& dropped, const Leaves& leaves);
    // Lets go of a plan that its store has removed. Needs the GIL.
    static void forget(const ExecutorObject& plan);
    void run(KernelContext* context);
    std::shared_ptr<const Sized> plan_for(std::vector<std::int64_t> dims, const std::vector<std::size_t>& ranks);

    const Api& api;
    const int threads;  // of its runs; 0: the default
    const Held net;
    std::vector<std::size_t> inputs, outputs;  // for each input and output of the net, its number in the node
    std::mutex mutex;
    Plans plans;  // the one used last comes first

    // Nobody waits for the GIL with a lock of these, or of a node.
    static inline std::mutex all_mutex;
    static std::unordered_set<Compiled*>& all() {
        static auto* const nodes = new std::unordered_set<Compiled*>;  // never destroyed: sessions may live longer
        return *nodes;
    }
};

template <typename Leaves>
void Compiled::take(Plans& dropped, const Leaves& leaves) {
    for (auto at = plans.begin(); at != plans.end();) {
        const auto next = std::next(at);
        if (leaves(*at)) dropped.splice(dropped.end(), plans, at);
        at = next;
    }
}

void Compiled::forget(const ExecutorObject& plan) {
    Plans dropped;  // behind the locks
    const std::lock_guard lock(all_mutex);
    for (Compiled* const node : all()) {
        const std::lock_guard plans_lock(node->mutex);
        node->take(dropped, [&](const auto& sized) { return sized->plan == &plan; });
    }
}

void Compiled::run(KernelContext* context) {
    const call_scope::Threads scope(threads);
    std::vector<char*> in(inputs.size()), out(outputs.size());
    std::vector<std::size_t> ranks(inputs.size());
    std::vector<std::int64_t> dims;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        const auto* const value = api.get<const Value*>(api.KernelContext_GetInput, std::as_const(context), inputs[i]);
        const auto info = api.shape(value);
        const ShapeInfo* const seen = info.get();
        const std::size_t begin = dims.size();
        ranks[i] = api.get<std::size_t>(api.GetDimensionsCount, seen);
        dims.resize(begin + ranks[i]);
        if (ranks[i]) api.check(api.GetDimensions(seen, dims.data() + begin, ranks[i]));
        in[i] = static_cast<char*>(api.get<void*>(api.GetTensorMutableData, const_cast<Value*>(value)));
    }
    const std::shared_ptr<const Sized> sized = plan_for(std::move(dims), ranks);
    const Executor& core = sized->plan->core;
    for (std::size_t i = 0; i < in.size(); ++i)
        if (!is_aligned(in[i], core.inputs()[i].layout.itemsize))
            fail(ErrorKind::invalid_argument, core.name() + ": " + core.inputs()[i].name + " is not aligned");
    for (std::size_t o = 0; o < out.size(); ++o) {
        const Layout& layout = core.outputs()[o].layout;
        const std::vector<std::int64_t> shape(layout.dims.begin(), layout.dims.begin() + layout.rank);
        auto* const value =
            api.get<Value*>(api.KernelContext_GetOutput, context, outputs[o], shape.data(), shape.size());
        out[o] = static_cast<char*>(api.get<void*>(api.GetTensorMutableData, value));
    }
    sized->plan->ran.store(true, std::memory_order_relaxed);
    const fork_guard::Busy busy;
    core.run({in.data(), out.data()});
}

std::shared_ptr<const Sized> Compiled::plan_for(std::vector<std::int64_t> dims, const std::vector<std::size_t>& ranks) {
    const auto fits = [&](const Sized& plan) { return plan.threads == plan_threads() && plan.dims == dims; };
    {
        const std::lock_guard lock(mutex);
        for (auto at = plans.begin(); at != plans.end(); ++at)
            if (fits(**at)) {
                plans.splice(plans.begin(), plans, at);
                return plans.front();
            }
    }
    std::shared_ptr<const Sized> sized;
    in_python([&] {
        py::tuple shapes(ranks.size());
        std::size_t next = 0;
        for (std::size_t i = 0; i < ranks.size(); ++i) {
            py::tuple shape(ranks[i]);
            for (std::size_t axis = 0; axis < ranks[i]; ++axis) shape[axis] = dims[next++];
            shapes[i] = shape;
        }
        const int threads = plan_threads();
        PlanRef plan(python("plan_for", py::make_tuple(net.get(), shapes)));
        require_row_major_results(plan.plan->core);
        if (plan.plan->core.inputs().size() != inputs.size() || plan.plan->core.outputs().size() != outputs.size())
            fail(ErrorKind::error, plan.plan->core.name() + ": the plan has other inputs or outputs than its node");
        sized = std::make_shared<const Sized>(Sized{std::move(dims), threads, Held(plan.executor), plan.plan});
    });
    Plans dropped;  // behind the lock: may wait for the GIL
    const std::lock_guard lock(mutex);
    plans.push_front(sized);
    take(dropped,
         [&](const auto& at) { return at != sized && at->threads == sized->threads && at->dims == sized->dims; });
    if (plans.size() > kMostSizes) dropped.splice(dropped.end(), plans, std::prev(plans.end()));
    return sized;
}

struct Factory;

struct Provider : Ep {
    Provider(Factory& factory, const Logger* logger, int threads, py::object claims);
    ~Provider();

    void claim(const Graph* graph, GraphSupport* support);
    void compile_all(const Graph** graphs, const Node** fused, std::size_t count, ComputeInfo** infos);

    Factory& factory;
    const Api& api;
    const Logger* const logger;
    const int threads;
    Held claims;  // what Python has claimed, until it is compiled
};

struct Factory : EpFactory {
    Factory(const void* const* table, const Logger* logger);

    const Api api;
    const Logger* const logger;
    std::atomic<int> providers{0};
};

Provider::Provider(Factory& factory, const Logger* logger, int threads, py::object claims)
    : factory(factory), api(factory.api), logger(logger), threads(threads), claims(std::move(claims)) {
    get_name = [](const Ep*) noexcept { return kName; };
    get_capability = [](Ep* self, const Graph* graph, GraphSupport* support) noexcept -> Status* {
        auto& provider = static_cast<Provider&>(*self);
        return guarded(provider.api, [&] { provider.claim(graph, support); });
    };
    compile = [](Ep* self, const Graph** graphs, const Node** fused, std::size_t count, ComputeInfo** infos,
                 Node**) noexcept -> Status* {
        auto& provider = static_cast<Provider&>(*self);
        return guarded(provider.api, [&] { provider.compile_all(graphs, fused, count, infos); });
    };
    release_compute_infos = [](Ep*, ComputeInfo** infos, std::size_t count) noexcept {
        for (std::size_t i = 0; i < count; ++i) delete static_cast<Compiled*>(infos[i]);
    };
    ++factory.providers;
}

Provider::~Provider() { --factory.providers; }

// Errors end in the log: a node that is not claimed is ONNX Runtime's.
void Provider::claim(const Graph* graph, GraphSupport* support) {
    const call_scope::Threads scope(threads);
    std::vector<std::vector<const Node*>> groups;
    try {
        in_python([&] {
            const auto nodes = api.list(api.Graph_GetNumNodes, api.Graph_GetNodes, graph);
            const py::object claimed = python("claimed", py::make_tuple(described(api, graph), claims.get()));
            for (const py::handle group : claimed) {
                auto& members = groups.emplace_back();
                for (const py::handle number : group) members.push_back(nodes.at(number.cast<std::size_t>()));
            }
        });
    } catch (const std::exception& error) {
        const std::string text = std::string("dnnl_graph_ops claims no nodes of this graph: ") + error.what();
        api.check(api.Logger_LogMessage(logger, LogLevel::warning, text.c_str(), __FILE__, __LINE__, __func__));
        groups.clear();
    }
    const FusionOptions options;
    for (const auto& group : groups)
        api.check(api.EpGraphSupportInfo_AddNodesToFuse(support, group.data(), group.size(), &options));
}

void Provider::compile_all(const Graph** graphs, const Node** fused, std::size_t count, ComputeInfo** infos) {
    const call_scope::Threads scope(threads);
    std::vector<std::unique_ptr<Compiled>> made;
    in_python([&] {
        for (std::size_t i = 0; i < count; ++i) {
            const auto ins = names(api, api.list(api.Node_GetNumInputs, api.Node_GetInputs, fused[i]));
            const auto outs = names(api, api.list(api.Node_GetNumOutputs, api.Node_GetOutputs, fused[i]));
            const py::tuple found =
                python("compiled", py::make_tuple(described(api, graphs[i]), ins, outs, claims.get()));
            made.push_back(std::make_unique<Compiled>(api, threads, found[0], found[1], found[2]));
        }
    });
    for (std::size_t i = 0; i < count; ++i) infos[i] = made[i].release();
}

Factory::Factory(const void* const* table, const Logger* logger) : api(table), logger(logger) {
    PlanStore::on_removed(&Compiled::forget);
    get_name = [](const EpFactory*) noexcept { return kName; };
    get_vendor = [](const EpFactory*) noexcept { return kVendor; };
    get_vendor_id = [](const EpFactory*) noexcept -> std::uint32_t { return 0; };
    get_version = [](const EpFactory*) noexcept { return DGO_VERSION; };
    create_data_transfer = [](EpFactory*, void** transfer) noexcept -> Status* {
        *transfer = nullptr;  // the memory is the host's
        return nullptr;
    };
    is_stream_aware = [](const EpFactory*) noexcept { return false; };
    get_supported_devices = [](EpFactory* self, const HardwareDevice* const* devices, std::size_t count,
                               EpDevice** made, std::size_t most, std::size_t* found) noexcept -> Status* {
        const Api& api = static_cast<Factory&>(*self).api;
        *found = 0;
        for (std::size_t i = 0; i < count && *found < most; ++i) {
            if (api.HardwareDevice_Type(devices[i]) != DeviceType::cpu) continue;
            if (Status* const status = api.CreateEpDevice(self, devices[i], nullptr, nullptr, made + *found))
                return status;
            ++*found;
        }
        return nullptr;
    };
    create_ep = [](EpFactory* self, const HardwareDevice* const*, const KeyValues* const*, std::size_t count,
                   const SessionOptions* options, const Logger* logger, Ep** ep) noexcept -> Status* {
        auto& factory = static_cast<Factory&>(*self);
        return guarded(factory.api, [&] {
            if (count != 1) fail(ErrorKind::invalid_argument, "dnnl_graph_ops: runs on one device, the CPU");
            const int threads = threads_of(factory.api, options);
            in_python([&] { *ep = new Provider(factory, logger, threads, py::list()); });
        });
    };
    release_ep = [](EpFactory*, Ep* ep) noexcept { delete static_cast<Provider*>(ep); };
}

}  // namespace
}  // namespace dgo::ort

// The functions that ONNX Runtime looks up in the library; their signatures are those of its headers.
extern "C" PYBIND11_EXPORT dgo::ort::Status* CreateEpFactories(const char*, const dgo::ort::ApiBase* base,
                                                               const dgo::ort::Logger* logger,
                                                               dgo::ort::EpFactory** factories, std::size_t most,
                                                               std::size_t* count) noexcept {
    using namespace dgo::ort;
    const void* const* const table = base->get_api(kVersion);
    if (!table) {
        // the functions that make a status are the first ones in every version
        const void* const* const oldest = base->get_api(1);
        if (!oldest) return nullptr;
        const auto create = reinterpret_cast<decltype(Api::CreateStatus)>(const_cast<void*>(oldest[0]));
        const std::string text =
            std::string("dnnl_graph_ops needs ONNX Runtime 1.23 or later, this is ") + base->get_version();
        return create(static_cast<int>(ErrorCode::not_implemented), text.c_str());
    }
    const auto create = reinterpret_cast<decltype(Api::CreateStatus)>(const_cast<void*>(table[0]));
    try {
        if (most < 1)
            return create(static_cast<int>(ErrorCode::invalid_argument), "dnnl_graph_ops: no room for a factory");
        factories[0] = new Factory(table, logger);
        *count = 1;
        return nullptr;
    } catch (const std::exception& error) {
        return create(static_cast<int>(ErrorCode::fail), error.what());
    }
}

// A factory whose providers live on is left alone: they are released by it later, or never.
extern "C" PYBIND11_EXPORT dgo::ort::Status* ReleaseEpFactory(dgo::ort::EpFactory* made) noexcept {
    using namespace dgo::ort;
    auto* const factory = static_cast<Factory*>(made);
    if (factory->providers == 0) {
        delete factory;
        return nullptr;
    }
    return factory->api.Logger_LogMessage(factory->logger, LogLevel::error,
                                          "dnnl_graph_ops: the provider was unregistered while sessions use it",
                                          __FILE__, __LINE__, __func__);
}
