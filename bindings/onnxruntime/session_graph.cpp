#include "onnxruntime/session_graph.hpp"

#include <algorithm>
#include <memory>
#include <string>

namespace dgo::ort {
namespace {

namespace py = pybind11;

py::str text(const char* bytes) {
    PyObject* const string =
        PyUnicode_DecodeUTF8(bytes, static_cast<Py_ssize_t>(std::char_traits<char>::length(bytes)), "backslashreplace");
    if (!string) throw py::error_already_set();
    return py::reinterpret_steal<py::str>(string);
}

py::tuple shape_of(const Api& api, const ShapeInfo* info) {
    std::vector<std::int64_t> dims(api.get<std::size_t>(api.GetDimensionsCount, info));
    if (!dims.empty()) api.check(api.GetDimensions(info, dims.data(), dims.size()));
    py::tuple shape(dims.size());
    for (std::size_t i = 0; i < dims.size(); ++i)
        shape[i] = dims[i] < 0 ? py::object(py::none()) : py::object(py::int_(dims[i]));
    return shape;
}

// The elements of a tensor where they lie; none for strings.
py::object elements(const Api& api, const Value* value, ElementType type) {
    if (type == ElementType::string) return py::none();
    auto* const tensor = const_cast<Value*>(value);
    const auto bytes = api.get<std::size_t>(api.GetTensorSizeInBytes, value);
    void* const data = api.get<void*>(api.GetTensorMutableData, tensor);
    static const char nothing = 0;
    return py::memoryview::from_memory(bytes ? data : static_cast<const void*>(&nothing),
                                       static_cast<py::ssize_t>(bytes));
}

py::tuple tensor(const Api& api, const Value* value) {
    const auto info = api.shape(value);
    const ShapeInfo* const seen = info.get();
    const auto type = api.get<ElementType>(api.GetTensorElementType, seen);
    return py::make_tuple(static_cast<int>(type), shape_of(api, seen), elements(api, value, type));
}

py::tuple facts(const Api& api, const ValueInfo* value) {
    if (api.get<bool>(api.ValueInfo_IsConstantInitializer, value))
        return tensor(api, api.get<const Value*>(api.ValueInfo_GetInitializerValue, value));
    const auto* const type = api.get<const TypeInfo*>(api.GetValueInfoTypeInfo, value);
    if (!type || api.get<ValueKind>(api.GetOnnxTypeFromTypeInfo, type) != ValueKind::tensor)
        return py::make_tuple(0, py::none(), py::none());
    const auto* const info = api.get<const ShapeInfo*>(api.CastTypeInfoToTensorInfo, type);
    const auto element = api.get<ElementType>(api.GetTensorElementType, info);
    return py::make_tuple(static_cast<int>(element), shape_of(api, info), py::none());
}

template <typename Item>
std::vector<Item> numbers(const Api& api, const Attribute* attribute, AttributeType type) {
    std::size_t bytes = 0;
    if (Status* const status = api.ReadOpAttr(attribute, type, nullptr, 0, &bytes)) api.ReleaseStatus(status);
    std::vector<Item> items(bytes / sizeof(Item));
    if (!items.empty()) api.check(api.ReadOpAttr(attribute, type, items.data(), bytes, &bytes));
    return items;
}

template <typename Item>
py::list listed(const std::vector<Item>& items) {
    py::list list;
    for (const Item& item : items) list.append(item);
    return list;
}

// Strings lie behind one another, each with a 0 behind it.
py::list texts(const std::vector<char>& bytes) {
    py::list list;
    for (auto at = bytes.begin(); at != bytes.end();) {
        const auto end = std::find(at, bytes.end(), '\0');
        list.append(text(std::string(at, end).c_str()));
        at = end == bytes.end() ? end : end + 1;
    }
    return list;
}

// An int, float, str, a list of these, a tensor as in `tensor` but with bytes of its own; none for what has no reading.
py::object attribute(const Api& api, const Attribute* item) {
    const auto type = api.get<AttributeType>(api.OpAttr_GetType, item);
    switch (type) {
        case AttributeType::integer: return py::int_(numbers<std::int64_t>(api, item, type).at(0));
        case AttributeType::number: return py::float_(numbers<float>(api, item, type).at(0));
        case AttributeType::integers: return listed(numbers<std::int64_t>(api, item, type));
        case AttributeType::numbers: return listed(numbers<float>(api, item, type));
        case AttributeType::text: {
            const auto bytes = numbers<char>(api, item, type);
            return text(std::string(bytes.begin(), bytes.end()).c_str());
        }
        case AttributeType::texts: return texts(numbers<char>(api, item, type));
        case AttributeType::tensor: {
            const auto release = [&](Value* value) { api.ReleaseValue(value); };
            const std::unique_ptr<Value, decltype(release)> value(
                api.get<Value*>(api.OpAttr_GetTensorAttributeAsOrtValue, item), release);
            const py::tuple found = tensor(api, value.get());
            const py::object data = found[2];
            if (data.is_none()) return py::none();
            PyObject* const bytes = PyBytes_FromObject(data.ptr());
            if (!bytes) throw py::error_already_set();
            return py::make_tuple(found[0], found[1], py::reinterpret_steal<py::object>(bytes));
        }
        case AttributeType::graph: break;
    }
    return py::none();
}

}  // namespace

py::tuple names(const Api& api, const std::vector<const ValueInfo*>& values) {
    py::tuple found(values.size());
    for (std::size_t i = 0; i < values.size(); ++i)
        found[i] = values[i] ? text(api.get<const char*>(api.GetValueInfoName, values[i])) : py::str("");
    return found;
}

py::dict described(const Api& api, const Graph* graph) {
    py::list nodes;
    py::dict values, opsets;
    // ONNX Runtime 1.23 tells no parent
    bool is_body = api.get<const Node*>(api.Graph_GetParentNode, graph) != nullptr;
    const auto add = [&](const std::vector<const ValueInfo*>& items) {
        const py::tuple found = names(api, items);
        for (std::size_t i = 0; i < items.size(); ++i) {
            if (!items[i] || values.contains(found[i])) continue;
            values[found[i]] = facts(api, items[i]);
            is_body = is_body || api.get<bool>(api.ValueInfo_IsFromOuterScope, items[i]);
        }
        return found;
    };
    for (const Node* const node : api.list(api.Graph_GetNumNodes, api.Graph_GetNodes, graph)) {
        py::dict attributes;
        for (const Attribute* const item : api.list(api.Node_GetNumAttributes, api.Node_GetAttributes, node))
            attributes[text(api.get<const char*>(api.OpAttr_GetName, item))] = attribute(api, item);
        const py::tuple reads = add(api.list(api.Node_GetNumInputs, api.Node_GetInputs, node));
        const py::tuple implied = add(api.list(api.Node_GetNumImplicitInputs, api.Node_GetImplicitInputs, node));
        const py::tuple writes = add(api.list(api.Node_GetNumOutputs, api.Node_GetOutputs, node));
        nodes.append(py::make_tuple(text(api.get<const char*>(api.Node_GetName, node)),
                                    text(api.get<const char*>(api.Node_GetOperatorType, node)),
                                    text(api.get<const char*>(api.Node_GetDomain, node)), reads, implied, writes,
                                    attributes));
    }
    std::vector<const char*> domains(api.get<std::size_t>(api.Graph_GetNumOperatorSets, graph));
    std::vector<std::int64_t> versions(domains.size());
    if (!domains.empty()) api.check(api.Graph_GetOperatorSets(graph, domains.data(), versions.data(), domains.size()));
    for (std::size_t i = 0; i < domains.size(); ++i) opsets[text(domains[i])] = versions[i];
    const py::tuple outputs = add(api.list(api.Graph_GetNumOutputs, api.Graph_GetOutputs, graph));
    using namespace py::literals;
    return py::dict("nodes"_a = nodes, "opsets"_a = opsets, "outputs"_a = outputs, "values"_a = values,
                    "is_body"_a = is_body);
}

}  // namespace dgo::ort
