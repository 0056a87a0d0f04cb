// Runs a plan whose partitions work in device memory: arguments are copied there and back, constants stay there, and
// steps of the host work on copies.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>

#include "common/error.hpp"
#include "kernels/copy/copy.hpp"
#include "plan/executor_context.hpp"

namespace dgo {
namespace {

// A dense copy of the elements, or null if the layout is dense.
std::shared_ptr<const Kernel> unpacking(const Layout& layout) {
    std::vector<std::int64_t> shape(layout.dims.begin(), layout.dims.begin() + layout.rank), strides;
    std::size_t bytes = static_cast<std::size_t>(layout.itemsize);
    for (int i = 0; i < layout.rank; ++i) {
        bytes *= static_cast<std::size_t>(layout.dims[i]);
        strides.push_back(layout.strides[i] / layout.itemsize);
    }
    if (bytes == layout.extent) return nullptr;
    return make_copy(shape, layout.dtype, strides, layout.dtype, strides);
}

}  // namespace

void Executor::prepare_device() {
    nothing_on_device_ = DeviceMemory(*engine_, kScratchAlignment);
    for (Slot& slot : slots_) {
        if (slot.kind != SlotKind::constant || !slot.in_partitions || !slot.bytes) continue;
        slot.device = DeviceMemory(*engine_, slot.bytes);
        slot.device.write(slot.data, slot.bytes);
    }
    for (Argument& output : outputs_) output.unpack = unpacking(output.layout);
}

const DeviceMemory& Executor::staging(Context& context, std::size_t slot) const {
    DeviceMemory& memory = context.staging[slot];
    if (!memory.size()) memory = DeviceMemory(*engine_, slots_[slot].bytes);
    return memory;
}

void Executor::bind_on_device(Context& context, const Addresses& arrays) const {
    const auto bind_arguments = [&](const std::vector<std::size_t>& slots, char* const* addresses, std::size_t first) {
        for (std::size_t i = 0; i < slots.size(); ++i) {
            const std::size_t s = slots[i];
            const Slot& slot = slots_[s];
            char* const address = addresses[i];
            refuse_null(address, slot);
            const bool there = arrays.on_device && arrays.on_device[first + i];
            const bool copied = !there && slot.in_partitions && slot.bytes;
            if (copied && slot.kind == SlotKind::input) staging(context, s).write(address, slot.bytes);
            // the valid copy of a result that partitions write is on the device until the end
            context.host[s] = there || (copied && slot.kind == SlotKind::output) ? nullptr : address;
            bind(context, s, there && address ? address : copied ? staging(context, s).data() : nothing());
        }
    };
    bind_arguments(input_slots_, arrays.in, 0);
    bind_arguments(output_slots_, arrays.out, input_slots_.size());
}

void Executor::run_through_host(const Step& step, const Context& context) const {
    struct Copy {
        int slot;
        std::size_t begin, end;  // bytes of the slot
        Block host;
    };
    std::vector<Copy> copies;  // one per slot: operands in one slot may lie between each other's elements
    const auto copy_of = [&](int slot) {
        return std::find_if(copies.begin(), copies.end(), [&](const Copy& copy) { return copy.slot == slot; });
    };
    const auto operands = [&](const auto& visit) {
        for (std::size_t i = 0; i < step.inputs; ++i) visit(i, operands_[step.first + i]);
    };
    operands([&](std::size_t, const Operand& operand) {
        if (context.host[operand.slot] || !operand.bytes) return;
        auto copy = copy_of(operand.slot);
        if (copy == copies.end())
            copy = copies.insert(copy, {operand.slot, std::numeric_limits<std::size_t>::max(), 0, {}});
        const auto offset = static_cast<std::size_t>(operand.offset);
        copy->begin = std::min(copy->begin, offset / kScratchAlignment * kScratchAlignment);
        copy->end = std::max(copy->end, offset + operand.bytes);
    });
    const auto on_device = [&](const Copy& copy) {
        return DeviceMemory(*engine_, copy.end - copy.begin, context.bases[copy.slot] + copy.begin);
    };
    for (Copy& copy : copies) {
        copy.host = host_blocks().borrow(copy.end - copy.begin);
        on_device(copy).read(copy.host.data(), copy.end - copy.begin);
    }
    std::vector<char*> addresses(step.inputs, nothing_on_host);
    operands([&](std::size_t i, const Operand& operand) {
        const auto copy = copy_of(operand.slot);
        if (char* const host = context.host[operand.slot])
            addresses[i] = host + operand.offset;
        else if (copy != copies.end())
            addresses[i] = copy->host.data() + (static_cast<std::size_t>(operand.offset) - copy->begin);
    });
    step.run_on_host(addresses.data());
    for (Copy& copy : copies) {
        const SlotKind kind = slots_[copy.slot].kind;
        if (kind == SlotKind::output || kind == SlotKind::scratch)
            on_device(copy).write(copy.host.data(), copy.end - copy.begin);
        host_blocks().give_back(std::move(copy.host));
    }
}

void Executor::fetch_results(const Context& context, const Addresses& arrays) const {
    for (std::size_t o = 0; o < outputs_.size(); ++o) {
        const std::size_t s = output_slots_[o];
        const DeviceMemory& memory = context.staging[s];
        if (!memory.size() || context.bases[s] != memory.data()) continue;
        memory.map([&](char* mapped) {
            char* const operands[] = {mapped, arrays.out[o]};
            if (outputs_[o].unpack)
                outputs_[o].unpack->run(operands);
            else
                std::copy_n(mapped, slots_[s].bytes, arrays.out[o]);
        });
    }
}

}  // namespace dgo
