// How a plan is built: slots, steps and their operands are checked when they are added; `finalize` ends it.
#include <algorithm>
#include <limits>

#include "common/error.hpp"
#include "plan/executor_context.hpp"

namespace dgo {
namespace {

// Measured bytes of objects that cannot be asked for their size: a plan's Python object with its entries in the stores,
// a callback, and a compiled partition of the library.
constexpr std::size_t kPlanBytes = 1024, kCallbackBytes = 1024, kPartitionBytes = 128 * 1024;

}  // namespace

const char* step_kind_name(StepKind kind) {
    static constexpr const char* names[] = {"partition", "kernel", "callback"};
    return names[static_cast<int>(kind)];
}

void Executor::expect_building() const {
    if (finalized_) fail(ErrorKind::invalid_argument, name_ + ": the plan is finalized and cannot be added to");
}

int Executor::add_slot(SlotKind kind, std::size_t bytes) {
    expect_building();
    Slot& slot = slots_.emplace_back();
    slot.kind = kind;
    slot.bytes = bytes;
    return static_cast<int>(slots_.size()) - 1;
}

int Executor::add_input(Layout layout) {
    const int slot = add_slot(SlotKind::input, layout.extent);
    inputs_.push_back({std::move(layout), "input " + std::to_string(inputs_.size()), nullptr});
    input_slots_.push_back(slot);
    return slot;
}

int Executor::add_output(Layout layout) {
    std::string name = "output " + std::to_string(outputs_.size());
    if (layout.overlaps_itself())
        fail(ErrorKind::invalid_argument,
             name_ + ": " + name + " would write elements of " + layout.str() + " over each other");
    const int slot = add_slot(SlotKind::output, layout.extent);
    outputs_.push_back({std::move(layout), std::move(name), nullptr});
    output_slots_.push_back(slot);
    return slot;
}

int Executor::add_constant(char* data, std::size_t bytes, bool shared) {
    const int slot = add_slot(SlotKind::constant, bytes);
    slots_[slot].data = data ? data : nothing_on_host;
    if (!shared && bytes) constants_.push_back({data, bytes});
    constant_bytes_ += bytes;
    return slot;
}

int Executor::add_scratch(std::size_t offset, std::size_t bytes) {
    if (offset % kScratchAlignment)
        fail(ErrorKind::invalid_argument, name_ + ": scratch starts at a multiple of " +
                                              std::to_string(kScratchAlignment) + " bytes, got offset " +
                                              std::to_string(offset));
    if (bytes > static_cast<std::size_t>(std::numeric_limits<std::int64_t>::max()) - kScratchAlignment ||
        offset > static_cast<std::size_t>(std::numeric_limits<std::int64_t>::max()) - kScratchAlignment - bytes)
        fail(ErrorKind::shape, name_ + ": scratch of " + std::to_string(bytes) + " bytes is too large");
    const int slot = add_slot(SlotKind::scratch, bytes);
    slots_[slot].offset = offset;
    scratch_slots_.push_back(slot);
    arena_bytes_ = std::max(arena_bytes_, offset + bytes);
    return slot;
}

void Executor::bad_step(const Step& step, const std::string& what) const {
    fail(ErrorKind::invalid_argument,
         name_ + ": step " + std::to_string(steps_.size()) + " (" + step.label + "): " + what);
}

Executor::Step Executor::new_step(StepKind kind, std::string label) const {
    expect_building();
    Step step;
    step.kind = kind;
    step.label = std::move(label);
    step.first = operands_.size();
    return step;
}

std::string Executor::misplaced(const Ref& ref, std::size_t bytes) const {
    const auto slot = std::to_string(ref.slot);
    if (ref.slot < 0 || static_cast<std::size_t>(ref.slot) >= slots_.size()) return "there is no slot " + slot;
    const auto available = static_cast<std::int64_t>(slots_[ref.slot].bytes);
    if (ref.offset >= 0 && ref.offset <= available && bytes <= static_cast<std::size_t>(available - ref.offset))
        return {};
    return std::to_string(bytes) + " bytes at offset " + std::to_string(ref.offset) + " do not fit into slot " + slot +
           " of " + std::to_string(available) + " bytes";
}

void Executor::add_operand(const Ref& ref, std::size_t bytes, bool written, const LogicalTensor* tensor,
                           const Step& step) {
    const auto refuse = [&](const std::string& what) {
        operands_.erase(operands_.begin() + static_cast<std::ptrdiff_t>(step.first), operands_.end());
        bad_step(step, what);
    };
    if (const std::string wrong = misplaced(ref, bytes); !wrong.empty()) refuse(wrong);
    const Slot& slot = slots_[ref.slot];
    if (written && (slot.kind == SlotKind::input || slot.kind == SlotKind::constant))
        refuse("slot " + std::to_string(ref.slot) + " may only be read");
    operands_.push_back({ref.slot, ref.offset, tensor, bytes});
}

void Executor::add_partition(std::shared_ptr<const CompiledPartition> partition, const std::vector<Ref>& in,
                             const std::vector<Ref>& out, std::string label) {
    Step step = new_step(StepKind::partition, std::move(label));
    if (!partition || partition->engine != engine_)
        bad_step(step, "the partition was compiled for another engine object than the plan's");
    const auto count = [&](const char* what, std::size_t want, std::size_t got) {
        if (want != got)
            bad_step(step, "the partition has " + std::to_string(want) + " " + what + ", got " + std::to_string(got));
    };
    count("inputs", partition->inputs.size(), in.size());
    count("outputs", partition->outputs.size(), out.size());
    const Library& lib = *engine_->lib;
    for (std::size_t i = 0; i < in.size(); ++i)
        add_operand(in[i], partition->inputs[i].mem_size(lib), false, &partition->inputs[i], step);
    for (std::size_t i = 0; i < out.size(); ++i)
        add_operand(out[i], partition->outputs[i].mem_size(lib), true, &partition->outputs[i], step);
    step.inputs = in.size();
    step.outputs = out.size();
    step.partition = std::move(partition);
    steps_.push_back(std::move(step));
}

void Executor::add_kernel(std::shared_ptr<const Kernel> kernel, const std::vector<Ref>& refs,
                          const std::vector<std::size_t>& bytes, std::string label) {
    Step step = new_step(StepKind::kernel, std::move(label));
    if (bytes.empty() ? on_device() : bytes.size() != refs.size())
        bad_step(step, "needs the bytes of its " + std::to_string(refs.size()) + " operands, got those of " +
                           std::to_string(bytes.size()));
    if (!kernel || refs.empty() || static_cast<std::size_t>(kernel->arity) != refs.size())
        bad_step(step, "the kernel has " + std::to_string(kernel ? kernel->arity : 0) + " operands, got " +
                           std::to_string(refs.size()));
    for (std::size_t i = 0; i < refs.size(); ++i)
        add_operand(refs[i], bytes.empty() ? 0 : bytes[i], i + 1 == refs.size(), nullptr, step);
    step.inputs = refs.size();
    step.kernel = std::move(kernel);
    steps_.push_back(std::move(step));
}

void Executor::add_callback(Callback callback, const std::vector<Ref>& refs, const std::vector<Layout>& layouts,
                            std::string label) {
    Step step = new_step(StepKind::callback, std::move(label));
    for (std::size_t i = 0; i < refs.size(); ++i) add_operand(refs[i], layouts.at(i).extent, false, nullptr, step);
    step.inputs = refs.size();
    step.callback = std::move(callback);
    steps_.push_back(std::move(step));
}

void Executor::only_if(const Ref& flag, bool wanted) {
    expect_building();
    if (steps_.empty())
        fail(ErrorKind::invalid_argument, name_ + ": there is no step yet that a condition could be of");
    if (on_device()) bad_step(steps_.back(), "conditions are read by the host, the plan is for a device");
    const std::string wrong = misplaced(flag, sizeof(std::int32_t));
    if (!wrong.empty()) bad_step(steps_.back(), wrong);
    steps_.back().condition = {flag, wanted};
}

void Executor::finalize(bool release_gil, int threads) {
    expect_building();
    if (threads < 0)
        fail(ErrorKind::invalid_argument, name_ + ": threads is 0 or positive, got " + std::to_string(threads));
    arena_bytes_ = (arena_bytes_ + kScratchAlignment - 1) / kScratchAlignment * kScratchAlignment;

    // Steps run in sequence, so all share one scratchpad, which follows the plan's scratch.
    std::size_t scratchpad = 0;
    for (const Step& step : steps_)
        if (step.partition) scratchpad = std::max(scratchpad, step.partition->scratchpad_size());
    if (scratchpad) {
        const int slot = add_scratch(arena_bytes_, scratchpad);
        arena_bytes_ -= scratchpad;
        scratchpad_bytes_ = scratchpad;
        std::vector<Operand> operands;  // each step's scratchpad goes after its outputs
        for (Step& step : steps_) {
            const auto first = operands_.begin() + static_cast<std::ptrdiff_t>(step.first);
            const auto next = &step == &steps_.back()
                                  ? operands_.end()
                                  : operands_.begin() + static_cast<std::ptrdiff_t>((&step + 1)->first);
            step.first = operands.size();
            operands.insert(operands.end(), first, next);
            if (step.partition && step.partition->scratchpad_size())
                operands.push_back({slot, 0, &step.partition->scratchpad(), scratchpad});
        }
        operands_ = std::move(operands);
    }

    for (std::size_t i = 0; i < operands_.size(); ++i) {
        Slot& slot = slots_[operands_[i].slot];
        slot.uses.push_back({i, operands_[i].offset});
        slot.in_partitions |= operands_[i].tensor != nullptr;
    }
    const auto is_empty = [](const Argument& output) { return output.layout.extent == 0; };
    nothing_to_do_ = steps_.empty() || (!outputs_.empty() && std::all_of(outputs_.begin(), outputs_.end(), is_empty));
    // execution on a CPU returns when the results are there, except that nobody promises it for SYCL
    wait_ = engine_ && (on_device() || engine_->lib->cpu_runtime() == kRuntimeSycl);
    host_task_ = wait_ && !on_device();
    if (on_device())
        prepare_device();
    else
        find_coming_weights();
    const auto fit = [](auto&... vectors) { (vectors.shrink_to_fit(), ...); };
    fit(inputs_, outputs_, input_slots_, output_slots_, scratch_slots_, slots_, operands_, steps_, constants_);
    if (!small()) blocks().join(arena_bytes());
    release_gil_ = release_gil;
    threads_ = threads;
    finalized_ = true;
}

void Executor::find_coming_weights() {
    constexpr std::size_t kFewestBytes = 64 * 1024, kMostSteps = 3;
    for (std::size_t s = 0; s < steps_.size(); ++s) {
        ComingWeights& coming = steps_[s].coming;
        const std::size_t end = std::min(s + 1 + kMostSteps, steps_.size());
        for (std::size_t next = s + 1; next < end && !coming.at; ++next) {
            for (std::size_t i = 0; i < steps_[next].inputs; ++i) {
                const Operand& operand = operands_[steps_[next].first + i];
                const Slot& slot = slots_[operand.slot];
                if (slot.kind != SlotKind::constant || slot.bytes < kFewestBytes) continue;
                coming = {slot.data + operand.offset, static_cast<int64_t>(slot.bytes) - operand.offset};
                break;
            }
        }
    }
}

Executor::Held Executor::held() const {
    Held held;
    for (const Slot& slot : slots_) held.constants += slot.device.size();
    // a library whose store of constants has a bound keeps them there, for all plans
    if (engine_ && !engine_->api().graph_set_constant_tensor_cache_capacity)
        for (const Operand& operand : operands_)
            if (operand.tensor && slots_[operand.slot].kind == SlotKind::constant) held.library += operand.bytes;
    held.objects = object_bytes();
    return held;
}

std::size_t Executor::object_bytes() const {
    std::size_t total = sizeof *this + kPlanBytes;
    total += (inputs_.size() + outputs_.size()) * sizeof(Argument) + constants_.capacity() * sizeof(Constant);
    total += slots_.capacity() * sizeof(Slot) + slots_.size() * sizeof(char*);
    // in the table, in the list of a slot, and in a context
    total += operands_.capacity() * sizeof(Operand);
    total += operands_.size() * (sizeof(Use) + sizeof(char*) + sizeof(dnnl_graph_tensor_t));
    total += steps_.capacity() * sizeof(Step);
    for (const Step& step : steps_) {
        total += step.label.capacity();
        total += step.partition ? kPartitionBytes : step.kernel ? step.kernel->held_bytes() : kCallbackBytes;
    }
    return total;
}

}  // namespace dgo
