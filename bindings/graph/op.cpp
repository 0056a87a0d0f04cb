#include "graph/op.hpp"

#include <pybind11/stl.h>

#include "library/fork_guard.hpp"

namespace py = pybind11;

namespace dgo {
namespace {

// The library accepts a kind it does not know and crashes on it later: first release with that many kinds.
struct KindRow {
    int count, minor;
};
constexpr KindRow kKinds[] = {{83, 2}, {84, 6}, {86, 7}, {87, 11}, {88, 12}};

dnnl_graph_op_kind_t checked_kind(const Library& lib, int kind, const std::string& name) {
    const auto where = "op '" + name + "': op kind " + std::to_string(kind);
    if (kind >= 0)
        for (const auto& row : kKinds) {
            if (kind >= row.count) continue;
            if (lib.version().at_least(3, row.minor)) return dnnl_graph_op_kind_t(kind);
            const auto& v = lib.version();
            fail(ErrorKind::unsupported,
                where + " needs oneDNN 3." + std::to_string(row.minor) + ", '" + lib.path() + "' is "
                    + std::to_string(v.major) + "." + std::to_string(v.minor));
        }
    fail(ErrorKind::invalid_argument, where + " is unknown; see OpKind");
}

// The C API sorts attribute codes by type; a scalar's setter reads one value whatever the length says.
struct AttrRow {
    int end;
    const char* type;
};
constexpr AttrRow kAttrs[] = {{0x20, "f32"}, {0x30, "f32[]"}, {0x40, "s64"}, {0x60, "s64[]"}, {0x80, "bool"},
    {0x100, "string"}};

const char* attr_type(int code) {
    if (code > 0)
        for (const auto& row : kAttrs)
            if (code < row.end) return row.type;
    return nullptr;
}

void check_text(const char* what, const std::string& text) {
    if (text.find('\0') != std::string::npos)
        fail(ErrorKind::invalid_argument, std::string(what) + " holds a NUL character");
}

}  // namespace

Op::Op(std::shared_ptr<const Library> lib, std::size_t id, int kind, const std::string& name)
    : lib(std::move(lib)), id(id), kind(checked_kind(*this->lib, kind, name)), name(name) {
    check_text("the name of an op", name);
    DGO_CALL(this->lib->api(), graph_op_create, &handle, id, this->kind, this->name.c_str());
}

Op::~Op() {
    fork_guard::destroy(lib->api().graph_op_destroy, handle);
}

std::string Op::str() const { return "op " + std::to_string(id) + " '" + name + "'"; }

void Op::add_input(const LogicalTensor& lt) { DGO_CALL(lib->api(), graph_op_add_input, handle, &lt.raw); }
void Op::add_output(const LogicalTensor& lt) { DGO_CALL(lib->api(), graph_op_add_output, handle, &lt.raw); }

void Op::set_f32(int code, const std::vector<float>& values) {
    DGO_CALL(lib->api(), graph_op_set_attr_f32, handle, dnnl_graph_op_attr_t(code), values.data(), values.size());
}
void Op::set_s64(int code, const std::vector<std::int64_t>& values) {
    DGO_CALL(lib->api(), graph_op_set_attr_s64, handle, dnnl_graph_op_attr_t(code), values.data(), values.size());
}
void Op::set_bool(int code, bool value) {
    const std::uint8_t byte = value;
    DGO_CALL(lib->api(), graph_op_set_attr_bool, handle, dnnl_graph_op_attr_t(code), &byte, 1);
}
void Op::set_string(int code, const std::string& value) {
    // The length counts the terminating NUL: the library reads a C string.
    DGO_CALL(lib->api(), graph_op_set_attr_str, handle, dnnl_graph_op_attr_t(code), value.c_str(), value.size() + 1);
}

namespace {

void set_attr(Op& op, int code, const std::string& type, const py::object& value) {
    const auto where = op.str() + ": attribute " + std::to_string(code);
    const char* expected = attr_type(code);
    if (!expected) fail(ErrorKind::invalid_argument, where + " is unknown; see OpAttr");
    if (type != expected)
        fail(ErrorKind::invalid_argument, where + " has type " + expected + ", not " + type);
    const auto nonempty = [&](auto values) {
        if (values.empty()) fail(ErrorKind::invalid_argument, where + " (" + type + ") is empty; give a value per axis");
        return values;
    };
    // A Python value of another type is a py::cast_error, which pybind11 would report as RuntimeError.
    try {
        if (type == "f32") return op.set_f32(code, {value.cast<float>()});
        if (type == "f32[]") return op.set_f32(code, nonempty(value.cast<std::vector<float>>()));
        if (type == "s64") return op.set_s64(code, {value.cast<std::int64_t>()});
        if (type == "s64[]") return op.set_s64(code, nonempty(value.cast<std::vector<std::int64_t>>()));
        if (type == "bool") return op.set_bool(code, value.cast<bool>());
        const auto text = value.cast<std::string>();
        if (text.empty()) fail(ErrorKind::invalid_argument, where + " (string) is empty");
        check_text(where.c_str(), text);
        op.set_string(code, text);
    } catch (const py::cast_error&) {
        throw py::type_error(where + " wants a value of type " + type + ", got " + std::string(py::repr(value)));
    }
}

}  // namespace

void bind_op(py::module_& m) {
    py::class_<Op, std::shared_ptr<Op>>(m, "Op")
        .def(py::init([](std::shared_ptr<Library> lib, std::size_t id, int kind, const std::string& name) {
            return std::make_shared<Op>(std::move(lib), id, kind, name);
        }),
            py::arg("library").none(false), py::arg("id"), py::arg("kind"), py::arg("name"))
        .def("add_input", &Op::add_input, py::arg("tensor"))
        .def("add_output", &Op::add_output, py::arg("tensor"))
        .def("set_attr", &set_attr, py::arg("code"), py::arg("type"), py::arg("value"))
        .def_property_readonly("id",
            [](const Op& op) {
                std::size_t id = 0;
                DGO_CALL(op.lib->api(), graph_op_get_id, op.handle, &id);
                return id;
            })
        .def_property_readonly("kind",
            [](const Op& op) {
                dnnl_graph_op_kind_t kind{};
                DGO_CALL(op.lib->api(), graph_op_get_kind, op.handle, &kind);
                return kind;
            })
        .def_readonly("name", &Op::name)
        .def("__repr__", [](const Op& op) { return "Op(" + op.str() + ", kind " + std::to_string(int(op.kind)) + ")"; });
}

}  // namespace dgo
