// The part of ONNX Runtime's C interface that the execution provider uses, declared by hand from its public headers
// (onnxruntime_c_api.h, onnxruntime_ep_c_api.h of version 1.23). Functions stand at fixed positions of two tables, which
// later versions only append to. Structs of callbacks are those of 1.23: ONNX Runtime reads no further than the version
// they state.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace dgo::ort {

inline constexpr std::uint32_t kVersion = 23;

// Opaque objects of ONNX Runtime.
struct Status;
struct Value;
struct TypeInfo;
struct ShapeInfo;
struct ValueInfo;
struct Graph;
struct GraphSupport;
struct Node;
struct Attribute;
struct KernelContext;
struct ComputeContext;
struct HardwareDevice;
struct EpDevice;
struct KeyValues;
struct SessionOptions;
struct Logger;

enum class ErrorCode : int { fail = 1, invalid_argument = 2, not_implemented = 9 };
enum class ValueKind : int { tensor = 1 };
enum class ElementType : int { string = 8 };
enum class AttributeType : int { integer = 1, integers, number, numbers, text, texts, graph, tensor };
enum class DeviceType : int { cpu = 0 };
enum class LogLevel : int { warning = 2, error = 3 };

struct FusionOptions {
    std::uint32_t version = kVersion;
    bool drop_constant_initializers = true;
};

struct ApiBase {
    const void* const* (*get_api)(std::uint32_t version) noexcept;
    const char* (*get_version)() noexcept;
};

// Every function that is called: its name, its position in the table of functions, its type.
#define DGO_ORT_FUNCTIONS(X)                                                                                        \
    X(CreateStatus, 0, Status*, (int code, const char* message))                                                     \
    X(GetErrorMessage, 2, const char*, (const Status*))                                                              \
    X(GetTensorMutableData, 51, Status*, (Value*, void** data))                                                      \
    X(CastTypeInfoToTensorInfo, 55, Status*, (const TypeInfo*, const ShapeInfo** shape))                             \
    X(GetOnnxTypeFromTypeInfo, 56, Status*, (const TypeInfo*, ValueKind*))                                           \
    X(GetTensorElementType, 60, Status*, (const ShapeInfo*, ElementType*))                                           \
    X(GetDimensionsCount, 61, Status*, (const ShapeInfo*, std::size_t*))                                             \
    X(GetDimensions, 62, Status*, (const ShapeInfo*, std::int64_t* dims, std::size_t rank))                          \
    X(GetTensorTypeAndShape, 65, Status*, (const Value*, ShapeInfo**))                                               \
    X(KernelContext_GetInputCount, 88, Status*, (const KernelContext*, std::size_t*))                                \
    X(KernelContext_GetOutputCount, 89, Status*, (const KernelContext*, std::size_t*))                               \
    X(KernelContext_GetInput, 90, Status*, (const KernelContext*, std::size_t, const Value**))                       \
    X(KernelContext_GetOutput, 91, Status*,                                                                          \
      (KernelContext*, std::size_t, const std::int64_t* dims, std::size_t rank, Value**))                            \
    X(ReleaseStatus, 93, void, (Status*))                                                                            \
    X(ReleaseValue, 96, void, (Value*))                                                                              \
    X(ReleaseShapeInfo, 99, void, (ShapeInfo*))                                                                      \
    X(HasSessionConfigEntry, 237, Status*, (const SessionOptions*, const char* key, int* has))                       \
    X(GetSessionConfigEntry, 238, Status*,                                                                           \
      (const SessionOptions*, const char* key, char* text, std::size_t* bytes))                                      \
    X(Logger_LogMessage, 247, Status*,                                                                               \
      (const Logger*, LogLevel, const char* message, const char* file, int line, const char* function))              \
    X(ReadOpAttr, 272, Status*,                                                                                      \
      (const Attribute*, AttributeType, void* data, std::size_t bytes, std::size_t* needed))                         \
    X(GetValueInfoName, 289, Status*, (const ValueInfo*, const char**))                                              \
    X(GetValueInfoTypeInfo, 290, Status*, (const ValueInfo*, const TypeInfo**))                                      \
    X(HardwareDevice_Type, 307, DeviceType, (const HardwareDevice*))                                                 \
    X(GetEpApi, 317, const void* const*, ())                                                                         \
    X(GetTensorSizeInBytes, 318, Status*, (const Value*, std::size_t*))                                              \
    X(ValueInfo_GetInitializerValue, 326, Status*, (const ValueInfo*, const Value**))                                \
    X(ValueInfo_IsConstantInitializer, 331, Status*, (const ValueInfo*, bool*))                                      \
    X(ValueInfo_IsFromOuterScope, 332, Status*, (const ValueInfo*, bool*))                                           \
    X(Graph_GetNumOperatorSets, 336, Status*, (const Graph*, std::size_t*))                                          \
    X(Graph_GetOperatorSets, 337, Status*,                                                                           \
      (const Graph*, const char** domains, std::int64_t* versions, std::size_t count))                               \
    X(Graph_GetNumOutputs, 340, Status*, (const Graph*, std::size_t*))                                               \
    X(Graph_GetOutputs, 341, Status*, (const Graph*, const ValueInfo**, std::size_t))                                \
    X(Graph_GetNumNodes, 344, Status*, (const Graph*, std::size_t*))                                                 \
    X(Graph_GetNodes, 345, Status*, (const Graph*, const Node**, std::size_t))                                       \
    X(Graph_GetParentNode, 346, Status*, (const Graph*, const Node**))                                               \
    X(Node_GetName, 349, Status*, (const Node*, const char**))                                                       \
    X(Node_GetOperatorType, 350, Status*, (const Node*, const char**))                                               \
    X(Node_GetDomain, 351, Status*, (const Node*, const char**))                                                     \
    X(Node_GetNumInputs, 353, Status*, (const Node*, std::size_t*))                                                  \
    X(Node_GetInputs, 354, Status*, (const Node*, const ValueInfo**, std::size_t))                                   \
    X(Node_GetNumOutputs, 355, Status*, (const Node*, std::size_t*))                                                 \
    X(Node_GetOutputs, 356, Status*, (const Node*, const ValueInfo**, std::size_t))                                  \
    X(Node_GetNumImplicitInputs, 357, Status*, (const Node*, std::size_t*))                                          \
    X(Node_GetImplicitInputs, 358, Status*, (const Node*, const ValueInfo**, std::size_t))                           \
    X(Node_GetNumAttributes, 359, Status*, (const Node*, std::size_t*))                                              \
    X(Node_GetAttributes, 360, Status*, (const Node*, const Attribute**, std::size_t))                               \
    X(OpAttr_GetTensorAttributeAsOrtValue, 362, Status*, (const Attribute*, Value**))                                \
    X(OpAttr_GetType, 363, Status*, (const Attribute*, AttributeType*))                                              \
    X(OpAttr_GetName, 364, Status*, (const Attribute*, const char**))

// The same of the table that GetEpApi returns.
#define DGO_ORT_EP_FUNCTIONS(X)                                                                                     \
    X(CreateEpDevice, 0, Status*,                                                                                    \
      (struct EpFactory*, const HardwareDevice*, const KeyValues* metadata, const KeyValues* options, EpDevice**))   \
    X(EpGraphSupportInfo_AddNodesToFuse, 2, Status*,                                                                 \
      (GraphSupport*, const Node* const* nodes, std::size_t count, const FusionOptions*))

// Callbacks of a provider, in ONNX Runtime's order, which does without those that are null here.
struct ComputeInfo {
    std::uint32_t version = kVersion;
    Status* (*create_state)(ComputeInfo*, ComputeContext*, void** state) noexcept = nullptr;
    Status* (*compute)(ComputeInfo*, void* state, KernelContext*) noexcept = nullptr;
    void (*release_state)(ComputeInfo*, void* state) noexcept = nullptr;
};

struct Ep {
    std::uint32_t version = kVersion;
    const char* (*get_name)(const Ep*) noexcept = nullptr;
    Status* (*get_capability)(Ep*, const Graph*, GraphSupport*) noexcept = nullptr;
    Status* (*compile)(Ep*, const Graph**, const Node** fused, std::size_t count, ComputeInfo** infos,
                       Node** context_nodes) noexcept = nullptr;
    void (*release_compute_infos)(Ep*, ComputeInfo**, std::size_t count) noexcept = nullptr;
    void* unused[8] = {};  // layouts, options, runs, allocator, stream, compatibility
};

struct EpFactory {
    std::uint32_t version = kVersion;
    const char* (*get_name)(const EpFactory*) noexcept = nullptr;
    const char* (*get_vendor)(const EpFactory*) noexcept = nullptr;
    Status* (*get_supported_devices)(EpFactory*, const HardwareDevice* const*, std::size_t count, EpDevice**,
                                     std::size_t most, std::size_t* found) noexcept = nullptr;
    Status* (*create_ep)(EpFactory*, const HardwareDevice* const*, const KeyValues* const* metadata, std::size_t count,
                         const SessionOptions*, const Logger*, Ep**) noexcept = nullptr;
    void (*release_ep)(EpFactory*, Ep*) noexcept = nullptr;
    std::uint32_t (*get_vendor_id)(const EpFactory*) noexcept = nullptr;
    const char* (*get_version)(const EpFactory*) noexcept = nullptr;
    void* unused[3] = {};  // compatibility, allocator
    Status* (*create_data_transfer)(EpFactory*, void** transfer) noexcept = nullptr;
    bool (*is_stream_aware)(const EpFactory*) noexcept = nullptr;
    void* stream = nullptr;
};

// The functions of one ONNX Runtime, by their names.
struct Api {
#define DGO_MEMBER(name, position, result, parameters) result(*name) parameters noexcept = nullptr;
    DGO_ORT_FUNCTIONS(DGO_MEMBER)
    DGO_ORT_EP_FUNCTIONS(DGO_MEMBER)
#undef DGO_MEMBER

    explicit Api(const void* const* table) {
#define DGO_TAKE(name, position, result, parameters) \
    name = reinterpret_cast<decltype(name)>(const_cast<void*>(from[position]));
        const void* const* from = table;
        DGO_ORT_FUNCTIONS(DGO_TAKE)
        from = GetEpApi();
        DGO_ORT_EP_FUNCTIONS(DGO_TAKE)
#undef DGO_TAKE
    }

    // Throws if a call has failed.
    void check(Status* status) const {
        if (!status) return;
        const std::string message = GetErrorMessage(status);
        ReleaseStatus(status);
        throw std::runtime_error("ONNX Runtime: " + message);
    }

    // The result of a function that returns it by its last argument.
    template <typename Result, typename... Parameters, typename... Arguments>
    Result get(Status* (*function)(Parameters...) noexcept, Arguments... arguments) const {
        Result result{};
        check(function(arguments..., &result));
        return result;
    }

    // Dtype and dims of a tensor, released with what is returned.
    auto shape(const Value* value) const {
        const auto release = [this](ShapeInfo* info) { ReleaseShapeInfo(info); };
        return std::unique_ptr<ShapeInfo, decltype(release)>(get<ShapeInfo*>(GetTensorTypeAndShape, value), release);
    }

    // The objects that one function counts and another one lists.
    template <typename Item, typename Owner>
    std::vector<Item> list(Status* (*count)(const Owner*, std::size_t*) noexcept,
                           Status* (*items)(const Owner*, Item*, std::size_t) noexcept, const Owner* owner) const {
        std::vector<Item> found(get<std::size_t>(count, owner));
        if (!found.empty()) check(items(owner, found.data(), found.size()));
        return found;
    }
};

}  // namespace dgo::ort
