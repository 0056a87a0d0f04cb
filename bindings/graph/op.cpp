#include "graph/op.hpp"

#include "library/fork_guard.hpp"

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
            fail(ErrorKind::unsupported, where + " needs oneDNN 3." + std::to_string(row.minor) + ", '" + lib.path() +
                                             "' is " + std::to_string(v.major) + "." + std::to_string(v.minor));
        }
    fail(ErrorKind::invalid_argument, where + " is unknown; see OpKind");
}

// The C API sorts attribute codes by type; a scalar's setter reads one value whatever the length says.
struct AttrRow {
    int end;
    const char* type;
};
constexpr AttrRow kAttrs[] = {{0x20, "f32"},   {0x30, "f32[]"}, {0x40, "s64"},
                              {0x60, "s64[]"}, {0x80, "bool"},  {0x100, "string"}};

void check_text(const std::string& what, const std::string& text) {
    if (text.find('\0') != std::string::npos) fail(ErrorKind::invalid_argument, what + " holds a NUL character");
}

}  // namespace

const char* attr_type(int code) {
    if (code > 0)
        for (const auto& row : kAttrs)
            if (code < row.end) return row.type;
    return nullptr;
}

Op::Op(std::shared_ptr<const Library> lib, std::size_t id, int kind, const std::string& name)
    : lib(std::move(lib)), id(id), kind(checked_kind(*this->lib, kind, name)), name(name) {
    check_text("the name of an op", name);
    DGO_CALL(this->lib->api(), graph_op_create, &handle, id, this->kind, this->name.c_str());
}

Op::~Op() { fork_guard::destroy(lib->api().graph_op_destroy, handle); }

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
    check_text(str() + ": attribute " + std::to_string(code), value);
    // The length counts the terminating NUL: the library reads a C string.
    DGO_CALL(lib->api(), graph_op_set_attr_str, handle, dnnl_graph_op_attr_t(code), value.c_str(), value.size() + 1);
}

}  // namespace dgo
