#include "graph/partition.hpp"

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <unordered_set>

#include "common/gil.hpp"
#include "graph/op.hpp"
#include "library/fork_guard.hpp"
#include "library/home_thread.hpp"
#include "library/thread_end.hpp"

namespace dgo {
namespace {

std::size_t index(home_thread::Home home) { return static_cast<std::size_t>(home); }

std::string ids_text(const std::vector<std::size_t>& ids) {
    std::string out;
    for (const auto id : ids) out += (out.empty() ? "" : ", ") + std::to_string(id);
    return out;
}

std::string ports_text(const std::vector<LogicalTensor>& ports) {
    std::vector<std::size_t> ids;
    for (const auto& port : ports) ids.push_back(port.id());
    return ids_text(ids);
}

// These checks refuse arguments on which the library reads past its lists, loops for ever or crashes.
void check_ports(const char* side, const std::vector<LogicalTensor>& given, const std::vector<LogicalTensor>& ports) {
    const auto ids = [](const std::vector<LogicalTensor>& list) {
        std::unordered_set<std::size_t> out;
        for (const auto& lt : list) out.insert(lt.id());
        return out;
    };
    const auto known = ids(ports), present = ids(given);
    for (const auto& port : ports)
        if (!present.count(port.id()))
            fail(ErrorKind::invalid_argument, std::string("compile: ") + side + " " + std::to_string(port.id()) +
                                                  " of the partition is missing; its " + side + "s are " +
                                                  ports_text(ports));
    for (const auto& lt : given)
        if (!known.count(lt.id()))
            fail(ErrorKind::invalid_argument, std::string("compile: the partition has no ") + side + " " +
                                                  std::to_string(lt.id()) + "; its " + side + "s are " +
                                                  ports_text(ports));
}

void check_input(const LogicalTensor& lt) {
    if (lt.raw.layout_type == dnnl_graph_layout_type_opaque || lt.has_strides()) return;
    fail(lt.raw.layout_type == dnnl_graph_layout_type_any ? ErrorKind::invalid_argument : ErrorKind::shape,
         "compile: input " + lt.str() + " must have known dims and a strided (or opaque) layout");
}

void check_output(const LogicalTensor& lt) {
    const bool any = lt.raw.layout_type == dnnl_graph_layout_type_any;
    if (!(lt.has_unknown_shape() || (lt.has_shape() && (any || lt.has_strides()))))
        fail(ErrorKind::shape, "compile: output " + lt.str() + " must have all dims known or none");
    for (int i = 0; lt.has_strides() && i < lt.ndims(); ++i)
        if (lt.raw.dims[i] > 1 && lt.raw.layout.strides[i] == 0)
            fail(ErrorKind::shape, "compile: output " + lt.str() + " has stride 0 on axis " + std::to_string(i) +
                                       ", its elements overlap");
}

std::vector<const dnnl_graph_logical_tensor_t*> raw_pointers(const std::vector<LogicalTensor>& list) {
    std::vector<const dnnl_graph_logical_tensor_t*> out;
    for (const auto& lt : list) out.push_back(&lt.raw);
    return out;
}

template <typename Count, typename Get>
std::vector<LogicalTensor> ports(const Partition& p, Count count, const char* count_name, Get get,
                                 const char* get_name) {
    std::size_t number = 0;
    guarded(count_name, [&] { return count(p.handle, &number); });
    std::vector<dnnl_graph_logical_tensor_t> raw(number);
    if (number) guarded(get_name, [&] { return get(p.handle, number, raw.data()); });
    return {raw.begin(), raw.end()};
}

}  // namespace

Partition::Partition(std::shared_ptr<const Library> lib, dnnl_graph_partition_t handle)
    : lib(std::move(lib)), handle(handle) {}

Partition::~Partition() { fork_guard::destroy(lib->api().graph_partition_destroy, handle); }

std::shared_ptr<Partition> Partition::create_with_op(const Op& op, dnnl_engine_kind_t kind) {
    dnnl_graph_partition_t handle = nullptr;
    DGO_CALL(op.lib->api(), graph_partition_create_with_op, &handle, op.handle, kind);
    return std::make_shared<Partition>(op.lib, handle);
}

std::size_t Partition::id() const { return DGO_READ(std::size_t, lib->api(), graph_partition_get_id, handle); }

std::vector<std::size_t> Partition::op_ids() const {
    const auto number = DGO_READ(std::size_t, lib->api(), graph_partition_get_op_num, handle);
    std::vector<std::size_t> out(number);
    if (number) DGO_CALL(lib->api(), graph_partition_get_ops, handle, number, out.data());
    return out;
}

bool Partition::is_supported() const {
    return DGO_READ(std::uint8_t, lib->api(), graph_partition_is_supported, handle) != 0;
}

dnnl_engine_kind_t Partition::engine_kind() const {
    return DGO_READ(dnnl_engine_kind_t, lib->api(), graph_partition_get_engine_kind, handle);
}

std::vector<LogicalTensor> Partition::input_ports() const {
    const Api& api = lib->api();
    return ports(*this, api.graph_partition_get_input_ports_num, "dnnl_graph_partition_get_input_ports_num",
                 api.graph_partition_get_input_ports, "dnnl_graph_partition_get_input_ports");
}

std::vector<LogicalTensor> Partition::output_ports() const {
    const Api& api = lib->api();
    return ports(*this, api.graph_partition_get_output_ports_num, "dnnl_graph_partition_get_output_ports_num",
                 api.graph_partition_get_output_ports, "dnnl_graph_partition_get_output_ports");
}

std::shared_ptr<CompiledPartition> Partition::compile(const std::vector<LogicalTensor>& inputs,
                                                      const std::vector<LogicalTensor>& outputs,
                                                      std::shared_ptr<const Engine> engine, bool one_thread) const {
    const fork_guard::Busy busy;
    if (engine->lib != lib)
        fail(ErrorKind::invalid_argument,
             "compile: the partition belongs to '" + lib->path() + "', the engine to '" + engine->lib->path() + "'");
    if (engine->kind != engine_kind())
        fail(ErrorKind::invalid_argument, std::string("compile: the partition is for ") +
                                              engine_kind_name(engine_kind()) + ", the engine is " +
                                              engine_kind_name(engine->kind));
    if (!is_supported())
        fail(ErrorKind::unsupported, "oneDNN " + lib->version().str() +
                                         " has no implementation for the partition of ops " + ids_text(op_ids()) +
                                         " on " + engine_kind_name(engine->kind));
    check_ports("input", inputs, input_ports());
    check_ports("output", outputs, output_ports());
    for (const auto& lt : inputs) check_input(lt);
    for (const auto& lt : outputs) check_output(lt);

    const Api& api = lib->api();
    // captures everything it uses: it may be called after this partition's owner was destroyed
    const CompiledPartition::Make make = [self = shared_from_this(), engine, inputs, outputs] {
        const fork_guard::Busy busy;
        const Api& api = self->lib->api();
        dnnl_graph_compiled_partition_t compiled = nullptr;
        DGO_CALL(api, graph_compiled_partition_create, &compiled, self->handle);
        try {
            auto in = raw_pointers(inputs), out = raw_pointers(outputs);
            const auto caches_stay = self->lib->compiling();
            DGO_CALL(api, graph_partition_compile, self->handle, compiled, in.size(), in.data(), out.size(), out.data(),
                     engine->handle);
        } catch (...) {
            api.graph_compiled_partition_destroy(compiled);
            throw;
        }
        return compiled;
    };
    one_thread = one_thread && !engine->on_device && lib->cpu_runtime() != kRuntimeSycl;
    const auto home = home_thread::of_caller();
    dnnl_graph_compiled_partition_t compiled = nullptr;
    const auto compile = [&] { compiled = make(); };
    one_thread ? home_thread::run(home, compile) : compile();
    std::vector<LogicalTensor> resolved = outputs;
    try {
        for (auto& lt : resolved)
            if (!lt.has_strides())
                DGO_CALL(api, graph_compiled_partition_query_logical_tensor, compiled, lt.id(), &lt.raw);
    } catch (...) {
        const auto destroy = [&] { api.graph_compiled_partition_destroy(compiled); };
        one_thread ? home_thread::run(home, destroy) : destroy();
        throw;
    }
    return std::make_shared<CompiledPartition>(std::move(engine), compiled, inputs, std::move(resolved),
                                               one_thread ? make : nullptr);
}

CompiledPartition::CompiledPartition(std::shared_ptr<const Engine> engine, dnnl_graph_compiled_partition_t handle,
                                     std::vector<LogicalTensor> inputs, std::vector<LogicalTensor> outputs, Make again)
    : engine(std::move(engine)), handle(handle), inputs(std::move(inputs)), outputs(std::move(outputs)),
      tied_(again ? std::make_unique<Tied>() : nullptr) {
    if (tied_) {
        tied_->make = std::move(again);
        tied_->handles[index(home_thread::of_caller())] = handle;
    }
    const Api& api = this->engine->api();
    std::size_t number = 0;
    const dnnl_graph_inplace_pair_t* pairs = nullptr;
    DGO_CALL(api, graph_compiled_partition_get_inplace_ports, handle, &number, &pairs);
    for (std::size_t i = 0; pairs && i < number; ++i)
        inplace_ports_.emplace_back(pairs[i].input_id, pairs[i].output_id);
    if (!api.graph_compiled_partition_get_scratchpad_logical_tensor || !api.graph_compiled_partition_execute_v2) return;
    DGO_CALL(api, graph_compiled_partition_get_scratchpad_logical_tensor, handle, &scratchpad_.raw);
    scratchpad_size_ = std::size_t(std::max<std::int64_t>(scratchpad_.raw.dims[0], 0));
}

CompiledPartition::~CompiledPartition() {
    if (fork_guard::is_broken()) return;
    const ReleaseGilIfHeld release;
    const auto destroy = [engine = engine](dnnl_graph_compiled_partition_t made) {
        const std::unique_lock lock(thread_end::ending());
        fork_guard::destroy(engine->api().graph_compiled_partition_destroy, made);
    };
    if (!tied_) destroy(handle);
    for (const auto home : {home_thread::Home::first, home_thread::Home::ours})
        if (const auto made = tied_ ? tied_->handles[index(home)].load() : nullptr)
            home_thread::run_some_time(home, [destroy, made] { destroy(made); });
}

template <typename Job>
void CompiledPartition::there(const Job& job) const {
    if (!tied_) return job(handle);
    const auto home = home_thread::of_caller();
    auto& mine = tied_->handles[index(home)];
    const auto work = [&] {
        if (!mine.load(std::memory_order_acquire)) {
            const std::lock_guard lock(tied_->making);
            if (!mine.load(std::memory_order_relaxed)) mine.store(tied_->make(), std::memory_order_release);
        }
        job(mine.load(std::memory_order_relaxed));
    };
    if (home == home_thread::Home::first) return home_thread::run(home, work);
    const ReleaseGilIfHeld release;
    home_thread::run(home, work);
}

LogicalTensor CompiledPartition::query(std::size_t id) const {
    LogicalTensor out;
    DGO_CALL(engine->api(), graph_compiled_partition_query_logical_tensor, handle, id, &out.raw);
    return out;
}

void CompiledPartition::execute(dnnl_stream_t stream, const const_dnnl_graph_tensor_t* in,
                                const const_dnnl_graph_tensor_t* out, const_dnnl_graph_tensor_t scratchpad) const {
    const Api& api = engine->api();
    auto* in_list = const_cast<const_dnnl_graph_tensor_t*>(in);
    auto* out_list = const_cast<const_dnnl_graph_tensor_t*>(out);
    there([&](dnnl_graph_compiled_partition_t made) {
        const thread_end::Execution execution;
        if (scratchpad)
            DGO_CALL(api, graph_compiled_partition_execute_v2, made, stream, inputs.size(), in_list, outputs.size(),
                     out_list, scratchpad);
        else
            DGO_CALL(api, graph_compiled_partition_execute, made, stream, inputs.size(), in_list, outputs.size(),
                     out_list);
    });
}

}  // namespace dgo
