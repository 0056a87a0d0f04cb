// The description of a tensor: id, data type, dims, strides in elements, layout, property.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "library/library.hpp"

namespace dgo {

inline constexpr std::int64_t kUnknownDim = DNNL_GRAPH_UNKNOWN_DIM;

class LogicalTensor {
public:
    LogicalTensor() = default;
    explicit LogicalTensor(const dnnl_graph_logical_tensor_t& raw) : raw(raw) {}
    // Unknown dims are kUnknownDim, dims == nullopt is an unknown rank; strides of a fully known strided
    // tensor default to dense row-major ones. Throws on anything the library would read wrongly. An opaque layout needs
    // a layout_id, which the caller answers for.
    LogicalTensor(std::size_t id, int dtype, const std::optional<std::vector<std::int64_t>>& dims,
                  const std::optional<std::vector<std::int64_t>>& strides, int layout, int property,
                  std::optional<std::size_t> layout_id = std::nullopt);

    std::size_t id() const { return raw.id; }
    int ndims() const { return raw.ndims; }
    bool has_shape() const;          // rank and every dim known
    bool has_unknown_shape() const;  // unknown rank, or every dim unknown
    bool is_strided() const { return raw.layout_type == dnnl_graph_layout_type_strided; }
    bool has_strides() const;  // strided, shape and strides known: an address can be computed for every element
    // Elements from the first to one past the last one addressed; 0 for an empty tensor. Needs has_strides().
    std::int64_t extent() const;
    bool is_dense() const;  // has_strides(), and no gaps between the elements
    std::size_t mem_size(const Library& lib) const;  // bytes
    std::string str() const;

    dnnl_graph_logical_tensor_t raw{};
};

// Bits per element; 0 for a type this extension does not know.
int data_type_bits(int dtype);
const char* data_type_name(int dtype);

}  // namespace dgo
