// The structs of the ABI of DLPack 1: tensors, and the functions by which a type of tensors lends them without a capsule.
#pragma once

#include <cstdint>

namespace dgo::dlpack {

struct Device {
    std::int32_t type, id;
};
struct DataType {
    std::uint8_t code, bits;
    std::uint16_t lanes;
};
struct Tensor {
    void* data;
    Device device;
    std::int32_t ndim;
    DataType dtype;
    std::int64_t* shape;
    std::int64_t* strides;  // in elements; null: row-major
    std::uint64_t byte_offset;
};
struct Managed {
    Tensor tensor;
    void* context;
    void (*deleter)(Managed*);
};
struct Versioned {
    std::uint32_t major, minor;
    void* context;
    void (*deleter)(Versioned*);
    std::uint64_t flags;
    Tensor tensor;
};

// Attribute `__dlpack_c_exchange_api__` of a type: a capsule of this.
struct ExchangeApi {
    std::uint32_t major, minor;
    ExchangeApi* previous;
    int (*allocate)(Tensor*, Versioned**, void*, void (*)(void*, const char*, const char*));
    int (*take)(void*, Versioned**);
    int (*give)(Versioned*, void**);
    int (*borrow)(void*, Tensor*);  // null: it lends nothing
    int (*stream)(std::int32_t, std::int32_t, void**);
};

inline constexpr std::int32_t kCpu = 1;
inline constexpr std::uint8_t kFloat = 2;

}  // namespace dgo::dlpack
