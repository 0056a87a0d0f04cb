#include "graph/partition.hpp"

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <unordered_set>

#include <pybind11/stl.h>

#include "border/gil.hpp"
#include "graph/op.hpp"
#include "graph/tensor.hpp"
#include "library/fork_guard.hpp"
#include "library/thread_end.hpp"

namespace py = pybind11;

namespace dgo {
namespace {

std::string library_text(const Library& lib) {
    const auto& v = lib.version();
    return "oneDNN " + std::to_string(v.major) + "." + std::to_string(v.minor) + "." + std::to_string(v.patch);
}

std::string ids_text(const std::vector<std::size_t>& ids) {
    std::string out;
    for (const auto id : ids) out += (out.empty() ? "" : ", ") + std::to_string(id);
    return out;
}

// The library reads past its lists, loops for ever or crashes on what these refuse.
void check_ports(const char* side, const std::vector<LogicalTensor>& given, const std::vector<LogicalTensor>& ports) {
    const auto ids = [](const std::vector<LogicalTensor>& list) {
        std::unordered_set<std::size_t> out;
        for (const auto& lt : list) out.insert(lt.id());
        return out;
    };
    const auto known = ids(ports), present = ids(given);
    for (const auto& port : ports)
        if (!present.count(port.id()))
            fail(ErrorKind::invalid_argument,
                std::string("compile: ") + side + " " + std::to_string(port.id()) + " of the partition is missing");
    for (const auto& lt : given)
        if (!known.count(lt.id()))
            fail(ErrorKind::invalid_argument, std::string("compile: the partition has no ") + side + " "
                    + std::to_string(lt.id()));
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
            fail(ErrorKind::shape,
                "compile: output " + lt.str() + " has stride 0 on axis " + std::to_string(i) + ", its elements overlap");
}

std::vector<const dnnl_graph_logical_tensor_t*> raw_pointers(const std::vector<LogicalTensor>& list) {
    std::vector<const dnnl_graph_logical_tensor_t*> out;
    for (const auto& lt : list) out.push_back(&lt.raw);
    return out;
}

template <typename Count, typename Get>
std::vector<LogicalTensor> ports(
    const Partition& p, Count count, const char* count_name, Get get, const char* get_name) {
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

std::size_t Partition::id() const {
    std::size_t out = 0;
    DGO_CALL(lib->api(), graph_partition_get_id, handle, &out);
    return out;
}

std::vector<std::size_t> Partition::op_ids() const {
    std::size_t number = 0;
    DGO_CALL(lib->api(), graph_partition_get_op_num, handle, &number);
    std::vector<std::size_t> out(number);
    if (number) DGO_CALL(lib->api(), graph_partition_get_ops, handle, number, out.data());
    return out;
}

bool Partition::is_supported() const {
    std::uint8_t out = 0;
    DGO_CALL(lib->api(), graph_partition_is_supported, handle, &out);
    return out != 0;
}

dnnl_engine_kind_t Partition::engine_kind() const {
    dnnl_engine_kind_t out = dnnl_any_engine;
    DGO_CALL(lib->api(), graph_partition_get_engine_kind, handle, &out);
    return out;
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
    const std::vector<LogicalTensor>& outputs, std::shared_ptr<const Engine> engine) const {
    const fork_guard::Busy busy;
    if (engine->lib != lib)
        fail(ErrorKind::invalid_argument, "compile: the partition belongs to '" + lib->path() + "', the engine to '"
                + engine->lib->path() + "'");
    if (engine->kind != engine_kind())
        fail(ErrorKind::invalid_argument, std::string("compile: the partition is for ")
                + engine_kind_name(engine_kind()) + ", the engine is " + engine_kind_name(engine->kind));
    if (!is_supported())
        fail(ErrorKind::unsupported,
            library_text(*lib) + " has no implementation for the partition of ops " + ids_text(op_ids()) + " on "
                + engine_kind_name(engine->kind));
    check_ports("input", inputs, input_ports());
    check_ports("output", outputs, output_ports());
    for (const auto& lt : inputs) check_input(lt);
    for (const auto& lt : outputs) check_output(lt);

    const Api& api = lib->api();
    dnnl_graph_compiled_partition_t compiled = nullptr;
    DGO_CALL(api, graph_compiled_partition_create, &compiled, handle);
    std::vector<LogicalTensor> resolved = outputs;
    try {
        auto in = raw_pointers(inputs), out = raw_pointers(outputs);
        DGO_CALL(api, graph_partition_compile, handle, compiled, in.size(), in.data(), out.size(), out.data(),
            engine->handle);
        for (auto& lt : resolved)
            if (!lt.has_strides())
                DGO_CALL(api, graph_compiled_partition_query_logical_tensor, compiled, lt.id(), &lt.raw);
    } catch (...) {
        api.graph_compiled_partition_destroy(compiled);
        throw;
    }
    return std::make_shared<CompiledPartition>(std::move(engine), compiled, inputs, std::move(resolved));
}

CompiledPartition::CompiledPartition(std::shared_ptr<const Engine> engine, dnnl_graph_compiled_partition_t handle,
    std::vector<LogicalTensor> inputs, std::vector<LogicalTensor> outputs)
    : engine(std::move(engine)), handle(handle), inputs(std::move(inputs)), outputs(std::move(outputs)) {
    const Api& api = this->engine->api();
    if (!api.graph_compiled_partition_get_scratchpad_logical_tensor || !api.graph_compiled_partition_execute_v2) return;
    DGO_CALL(api, graph_compiled_partition_get_scratchpad_logical_tensor, handle, &scratchpad_.raw);
    scratchpad_size_ = std::size_t(std::max<std::int64_t>(scratchpad_.raw.dims[0], 0));
}

CompiledPartition::~CompiledPartition() {
    if (fork_guard::is_broken()) return;
    const ReleaseGilIfHeld release;
    const std::unique_lock lock(thread_end::ending());
    fork_guard::destroy(engine->api().graph_compiled_partition_destroy, handle);
}

LogicalTensor CompiledPartition::query(std::size_t id) const {
    LogicalTensor out;
    DGO_CALL(engine->api(), graph_compiled_partition_query_logical_tensor, handle, id, &out.raw);
    return out;
}

std::vector<std::pair<std::size_t, std::size_t>> CompiledPartition::inplace_ports() const {
    std::size_t number = 0;
    const dnnl_graph_inplace_pair_t* pairs = nullptr;
    DGO_CALL(engine->api(), graph_compiled_partition_get_inplace_ports, handle, &number, &pairs);
    std::vector<std::pair<std::size_t, std::size_t>> out;
    for (std::size_t i = 0; pairs && i < number; ++i) out.emplace_back(pairs[i].input_id, pairs[i].output_id);
    return out;
}

void CompiledPartition::execute(dnnl_stream_t stream, const const_dnnl_graph_tensor_t* in,
    const const_dnnl_graph_tensor_t* out, const_dnnl_graph_tensor_t scratchpad) const {
    const Api& api = engine->api();
    const thread_end::Execution execution;
    auto* in_list = const_cast<const_dnnl_graph_tensor_t*>(in);
    auto* out_list = const_cast<const_dnnl_graph_tensor_t*>(out);
    if (scratchpad)
        DGO_CALL(api, graph_compiled_partition_execute_v2, handle, stream, inputs.size(), in_list, outputs.size(),
            out_list, scratchpad);
    else
        DGO_CALL(api, graph_compiled_partition_execute, handle, stream, inputs.size(), in_list, outputs.size(),
            out_list);
}

namespace {

bool same_layout(const LogicalTensor& a, const LogicalTensor& b) {
    if (a.raw.data_type != b.raw.data_type || a.raw.layout_type != b.raw.layout_type || a.ndims() != b.ndims()
        || !std::equal(a.raw.dims, a.raw.dims + std::max(a.ndims(), 0), b.raw.dims))
        return false;
    if (!a.is_strided()) return a.raw.layout.layout_id == b.raw.layout.layout_id;
    for (int i = 0; i < a.ndims(); ++i)
        if (a.raw.dims[i] > 1 && a.raw.layout.strides[i] != b.raw.layout.strides[i]) return false;
    return true;
}

using Tensors = std::vector<std::shared_ptr<Tensor>>;

// The library compares none of this; a wrong order would silently give wrong numbers.
std::vector<const_dnnl_graph_tensor_t> handles(const char* side, const Tensors& tensors,
    const std::vector<LogicalTensor>& compiled, const Engine& engine, bool written) {
    if (tensors.size() != compiled.size())
        fail(ErrorKind::invalid_argument, std::string("execute: got ") + std::to_string(tensors.size()) + " " + side
                + "s, the partition was compiled with " + std::to_string(compiled.size()));
    std::vector<const_dnnl_graph_tensor_t> out;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
        const auto where = std::string("execute: ") + side + " " + std::to_string(i);
        if (!tensors[i]) throw py::type_error(where + " is None");
        const Tensor& t = *tensors[i];
        if (t.engine.get() != &engine)
            fail(ErrorKind::invalid_argument, where + " is on another engine than the compiled partition");
        if (t.lt.id() != compiled[i].id() || !same_layout(t.lt, compiled[i]))
            fail(ErrorKind::invalid_argument, where + " is " + t.lt.str() + ", compiled was " + compiled[i].str());
        if (written && !t.writable) fail(ErrorKind::invalid_argument, where + " is read-only memory");
        out.push_back(t.handle);
    }
    return out;
}

void execute_tensors(const CompiledPartition& cp, const Stream& stream, const Tensors& inputs, const Tensors& outputs,
    const std::shared_ptr<Tensor>& scratchpad) {
    fork_guard::enter();
    if (stream.engine != cp.engine)
        fail(ErrorKind::invalid_argument,
            "execute: the stream is on another engine than the one the partition was compiled for");
    const auto in = handles("input", inputs, cp.inputs, *cp.engine, false);
    const auto out = handles("output", outputs, cp.outputs, *cp.engine, true);
    const_dnnl_graph_tensor_t scratch = nullptr;
    if (scratchpad && cp.scratchpad_size() > 0)
        scratch = handles("scratchpad", {scratchpad}, {cp.scratchpad()}, *cp.engine, true).front();
    const py::object keep[] = {kept(cp), kept(stream)};
    const ReleaseGil release;
    cp.execute(stream.handle, in.data(), out.data(), scratch);
}

}  // namespace

void bind_partition(py::module_& m) {
    py::class_<CompiledPartition, std::shared_ptr<CompiledPartition>>(m, "CompiledPartition")
        .def_property_readonly(
            "engine", [](const CompiledPartition& cp) { return std::const_pointer_cast<Engine>(cp.engine); })
        .def_property_readonly("inputs", [](const CompiledPartition& cp) { return cp.inputs; })
        .def_property_readonly("outputs", [](const CompiledPartition& cp) { return cp.outputs; })
        .def("query", &CompiledPartition::query, py::arg("id"))
        .def_property_readonly("inplace_ports", &CompiledPartition::inplace_ports)
        .def_property_readonly("scratchpad_size", &CompiledPartition::scratchpad_size)
        .def_property_readonly("scratchpad",
            [](const CompiledPartition& cp) -> std::optional<LogicalTensor> {
                if (cp.scratchpad_size() == 0) return std::nullopt;
                return cp.scratchpad();
            })
        .def("execute", &execute_tensors, py::arg("stream"), py::arg("inputs"), py::arg("outputs"),
            py::arg("scratchpad") = std::shared_ptr<Tensor>());

    py::class_<Partition, std::shared_ptr<Partition>>(m, "Partition")
        .def_static("create_with_op",
            [](const Op& op, int kind) { return Partition::create_with_op(op, engine_kind_from(kind)); },
            py::arg("op"), py::arg("engine_kind"))
        .def_property_readonly("id", &Partition::id)
        .def_property_readonly("op_count", [](const Partition& p) { return p.op_ids().size(); })
        .def_property_readonly("op_ids", &Partition::op_ids)
        .def_property_readonly("is_supported", &Partition::is_supported)
        .def_property_readonly("engine_kind", &Partition::engine_kind)
        .def_property_readonly("input_ports", &Partition::input_ports)
        .def_property_readonly("output_ports", &Partition::output_ports)
        .def("compile",
            [](const Partition& p, const std::vector<LogicalTensor>& inputs,
                const std::vector<LogicalTensor>& outputs, std::shared_ptr<Engine> engine) {
                const py::object keep = kept(p);
                const ReleaseGil release;
                return p.compile(inputs, outputs, std::move(engine));
            },
            py::arg("inputs"), py::arg("outputs"), py::arg("engine").none(false));
}

}  // namespace dgo
