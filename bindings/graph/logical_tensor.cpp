#include "graph/logical_tensor.hpp"

#include <algorithm>

namespace dgo {
namespace {

struct TypeRow {
    int code;
    int bits;
    const char* name;
};
constexpr TypeRow kTypes[] = {{dnnl_data_type_undef, 0, "undef"},
                              {dnnl_f16, 16, "f16"},
                              {dnnl_bf16, 16, "bf16"},
                              {dnnl_f32, 32, "f32"},
                              {dnnl_s32, 32, "s32"},
                              {dnnl_s8, 8, "s8"},
                              {dnnl_u8, 8, "u8"},
                              {dnnl_f64, 64, "f64"},
                              {dnnl_boolean, 8, "boolean"},
                              {abi::f8_e5m2, 8, "f8_e5m2"},
                              {abi::f8_e4m3, 8, "f8_e4m3"},
                              {abi::s4, 4, "s4"},
                              {abi::u4, 4, "u4"},
                              {abi::e8m0, 8, "e8m0"},
                              {abi::f4_e2m1, 4, "f4_e2m1"},
                              {abi::f4_e3m0, 4, "f4_e3m0"},
                              {abi::s64, 64, "s64"}};

const TypeRow* find(int dtype) {
    for (const auto& row : kTypes)
        if (row.code == dtype) return &row;
    return nullptr;
}

bool multiply(std::int64_t a, std::int64_t b, std::int64_t& out) { return !__builtin_mul_overflow(a, b, &out); }

[[noreturn]] void invalid(std::size_t id, const std::string& message, ErrorKind kind = ErrorKind::shape) {
    fail(kind, "logical tensor " + std::to_string(id) + ": " + message);
}

void check_values(std::size_t id, const char* name, const std::vector<std::int64_t>& values) {
    if (values.size() > DNNL_MAX_NDIMS)
        invalid(id, std::string(name) + " has " + std::to_string(values.size()) + " values, at most " +
                        std::to_string(DNNL_MAX_NDIMS) + " are possible");
    for (const auto value : values)
        if (value < 0 && value != kUnknownDim)
            invalid(id, std::string(name) + " has the negative value " + std::to_string(value) +
                            "; write None for an unknown one");
}

std::string list(const std::int64_t* values, int count) {
    std::string out = "(";
    for (int i = 0; i < count; ++i)
        out += (i ? ", " : "") + (values[i] == kUnknownDim ? std::string("?") : std::to_string(values[i]));
    return out + ")";
}

}  // namespace

int data_type_bits(int dtype) {
    const TypeRow* row = find(dtype);
    return row ? row->bits : 0;
}

const char* data_type_name(int dtype) {
    const TypeRow* row = find(dtype);
    return row ? row->name : "unknown";
}

LogicalTensor::LogicalTensor(std::size_t id, int dtype, const std::optional<std::vector<std::int64_t>>& dims,
                             const std::optional<std::vector<std::int64_t>>& strides, int layout, int property,
                             std::optional<std::size_t> layout_id) {
    if (!find(dtype)) invalid(id, "data type " + std::to_string(dtype) + " is unknown", ErrorKind::invalid_argument);
    const bool opaque = layout == dnnl_graph_layout_type_opaque;
    if (layout < dnnl_graph_layout_type_undef || layout > dnnl_graph_layout_type_opaque)
        invalid(id, "layout " + std::to_string(layout) + " is unknown", ErrorKind::invalid_argument);
    if (opaque != layout_id.has_value())
        invalid(id, "an opaque layout has a layout id, which a compiled partition tells, and others have none",
                ErrorKind::invalid_argument);
    if (property < 0 || property > abi::property_host_scalar)
        invalid(id, "property " + std::to_string(property) + " is unknown", ErrorKind::invalid_argument);
    if (strides && layout != dnnl_graph_layout_type_strided)
        invalid(id, "strides are given but the layout is not LayoutType.strided", ErrorKind::invalid_argument);
    if (strides && !dims) invalid(id, "strides are given without dims", ErrorKind::invalid_argument);

    raw.id = id;
    raw.data_type = dnnl_data_type_t(dtype);
    raw.layout_type = dnnl_graph_layout_type_t(layout);
    raw.property = dnnl_graph_tensor_property_t(property);
    raw.ndims = DNNL_GRAPH_UNKNOWN_NDIMS;
    std::fill_n(raw.dims, DNNL_MAX_NDIMS, kUnknownDim);
    std::fill_n(raw.layout.strides, DNNL_MAX_NDIMS, kUnknownDim);
    if (opaque) raw.layout.layout_id = *layout_id;
    if (!dims) return;

    check_values(id, "dims", *dims);
    raw.ndims = int(dims->size());
    std::copy(dims->begin(), dims->end(), raw.dims);
    if (strides) {
        check_values(id, "strides", *strides);
        if (strides->size() != dims->size())
            invalid(id, std::to_string(strides->size()) + " strides for " + std::to_string(dims->size()) + " dims");
        std::copy(strides->begin(), strides->end(), raw.layout.strides);
    } else if (is_strided() && has_shape()) {
        std::int64_t step = 1;
        for (int i = raw.ndims - 1; i >= 0; --i) {
            raw.layout.strides[i] = step;
            if (!multiply(step, std::max<std::int64_t>(raw.dims[i], 1), step))
                invalid(id, "dims " + list(raw.dims, raw.ndims) + " have more elements than 64 bits can count");
        }
    }
    // Every size that the library or we compute from it must fit.
    if (has_strides()) (void)extent();
}

bool LogicalTensor::has_shape() const {
    return raw.ndims >= 0 && std::all_of(raw.dims, raw.dims + raw.ndims, [](auto d) { return d >= 0; });
}

bool LogicalTensor::has_unknown_shape() const {
    return raw.ndims < 0 ||
           (raw.ndims > 0 && std::all_of(raw.dims, raw.dims + raw.ndims, [](auto d) { return d < 0; }));
}

bool LogicalTensor::has_strides() const {
    return is_strided() && has_shape() &&
           std::all_of(raw.layout.strides, raw.layout.strides + raw.ndims, [](auto s) { return s >= 0; });
}

std::int64_t LogicalTensor::extent() const {
    std::int64_t last = 0;
    if (std::any_of(raw.dims, raw.dims + raw.ndims, [](auto d) { return d == 0; })) return 0;
    for (int i = 0; i < raw.ndims; ++i) {
        std::int64_t span = 0;
        if (!multiply(raw.dims[i] - 1, raw.layout.strides[i], span) || __builtin_add_overflow(last, span, &last))
            invalid(raw.id, "dims " + list(raw.dims, raw.ndims) + " with strides " +
                                list(raw.layout.strides, raw.ndims) + " span more than 64 bits can address");
    }
    // the library counts bits, or bytes of at least eight bits
    std::int64_t bits = 0;
    if (__builtin_add_overflow(last, 1, &last) || !multiply(last, std::max(data_type_bits(raw.data_type), 8), bits))
        invalid(raw.id, "dims " + list(raw.dims, raw.ndims) + " span more than 64 bits can address");
    return last;
}

bool LogicalTensor::is_dense() const {
    if (!has_strides()) return false;
    std::int64_t elements = 1;
    for (int i = 0; i < raw.ndims; ++i)
        if (!multiply(elements, raw.dims[i], elements)) return false;
    return elements == extent();
}

std::size_t LogicalTensor::mem_size(const Library& lib) const {
    if (raw.layout_type == dnnl_graph_layout_type_opaque) {
        return DGO_READ(std::size_t, lib.api(), graph_logical_tensor_get_mem_size, &raw);
    }
    if (!has_strides()) invalid(raw.id, "its size in memory is unknown: " + str());
    return (std::size_t(extent()) * std::size_t(data_type_bits(raw.data_type)) + 7) / 8;
}

std::string LogicalTensor::str() const {
    std::string out = std::to_string(raw.id) + ":" + data_type_name(raw.data_type) + ":";
    out += raw.ndims < 0 ? "(...)" : list(raw.dims, raw.ndims);
    switch (raw.layout_type) {
        case dnnl_graph_layout_type_strided:
            return raw.ndims < 0 ? out : out + " strides " + list(raw.layout.strides, raw.ndims);
        case dnnl_graph_layout_type_any: return out + " layout any";
        case dnnl_graph_layout_type_opaque: return out + " layout " + std::to_string(raw.layout.layout_id);
        default: return out + " layout undef";
    }
}

}  // namespace dgo
