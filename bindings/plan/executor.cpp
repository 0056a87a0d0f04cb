#include "plan/executor.hpp"

#include <omp.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>
#include <optional>
#include <thread>

#include "kernels/standing.hpp"
#include "library/fork_guard.hpp"
#include "library/host_task.hpp"
#include "library/status.hpp"
#include "library/threads.hpp"
#include "plan/call_scope.hpp"
#include "plan/executor_context.hpp"

namespace dgo {
namespace {

// Measured bytes of objects that cannot be asked for their size: a plan's Python object with its entries in the stores,
// a callback, and a compiled partition of the library.
constexpr std::size_t kPlanBytes = 1024, kCallbackBytes = 1024, kPartitionBytes = 128 * 1024;

class ThreadCount {
public:
    explicit ThreadCount(int threads) {
        const int current = omp_get_max_threads();
        threads::require(threads > 0 ? threads : current);
        if (threads <= 0 || current == threads) return;
        before_ = current;
        omp_set_num_threads(threads);
    }
    ~ThreadCount() {
        if (before_) omp_set_num_threads(before_);
    }
    ThreadCount(const ThreadCount&) = delete;
    ThreadCount& operator=(const ThreadCount&) = delete;

private:
    int before_ = 0;
};

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// Calls `poll` if the last call is a tenth of a second ago.
class Heartbeat {
public:
    explicit Heartbeat(const Executor::Poll& poll) : poll_(poll) {}
    void operator()() {
        if (seconds_since(last_) < 0.1) return;
        poll_();
        last_ = Clock::now();
    }

private:
    const Executor::Poll& poll_;
    Clock::time_point last_ = Clock::now();
};

}  // namespace

const char* step_kind_name(StepKind kind) {
    static constexpr const char* names[] = {"partition", "kernel", "callback"};
    return names[static_cast<int>(kind)];
}

// A context taken from the idle ones for a run; goes back only if the run ended well.
class Executor::Lease {
public:
    explicit Lease(const Executor& owner)
        : owner_(owner), context_(owner.first_idle_.exchange(nullptr, std::memory_order_acquire)) {
        if (!context_) {
            const std::lock_guard lock(owner.mutex_);
            if (!owner.idle_.empty()) {
                context_ = std::move(owner.idle_.back());
                owner.idle_.pop_back();
            }
        }
        if (!context_) context_ = owner.new_context();
        if (!owner.arena_bytes()) return;
        if (owner.small()) small_ = small_scratch::take();
        if (!small_) borrowed_ = owner.blocks().borrow(owner.arena_bytes());
    }
    ~Lease() {
        if (!done_) context_->settle();
        if (small_) small_scratch::give_back();
        if (borrowed_.size()) owner_.blocks().give_back(std::move(borrowed_));
        if (!done_) return;
        Context* none = nullptr;
        if (owner_.first_idle_.compare_exchange_strong(none, context_.get(), std::memory_order_release)) {
            context_.release();
            return;
        }
        static const std::size_t limit = std::max(1u, std::thread::hardware_concurrency());
        const std::lock_guard lock(owner_.mutex_);
        if (owner_.idle_.size() < limit) owner_.idle_.push_back(std::move(context_));
    }
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;

    Context& context() { return *context_; }
    char* arena() { return small_ ? small_ : borrowed_.data(); }
    void done() { done_ = true; }

private:
    const Executor& owner_;
    std::unique_ptr<Context> context_;
    char* small_ = nullptr;
    Block borrowed_;
    bool done_ = false;
};

Executor::Executor(std::shared_ptr<const Engine> engine, std::string name)
    : engine_(std::move(engine)), name_(std::move(name)) {}

Executor::~Executor() {
    delete first_idle_.load(std::memory_order_acquire);
    delete standing_.load(std::memory_order_acquire);
    if (finalized_ && !small()) blocks().leave(arena_bytes());
    if (engine_) engine_->lib->constants_dropped(engine_->kind, constant_bytes_);
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

std::unique_ptr<Executor::Context> Executor::new_context() const {
    auto context = std::make_unique<Context>(engine_ ? &engine_->api() : nullptr);
    context->operands.resize(operands_.size());
    context->tensors.resize(operands_.size());
    context->bases.resize(slots_.size());
    const auto is_partition = [](const Step& step) { return step.kind == StepKind::partition; };
    if (std::any_of(steps_.begin(), steps_.end(), is_partition)) context->stream = std::make_unique<Stream>(engine_);
    for (std::size_t i = 0; i < operands_.size(); ++i)
        if (const LogicalTensor* tensor = operands_[i].tensor)
            DGO_CALL(*context->api, graph_tensor_create, &context->tensors[i], &tensor->raw, engine_->handle,
                     nothing());
    if (on_device()) {
        context->host.resize(slots_.size());
        context->staging.resize(slots_.size());
    }
    for (std::size_t i = 0; i < slots_.size(); ++i) {
        const Slot& slot = slots_[i];
        if (slot.kind != SlotKind::constant) continue;
        if (on_device()) context->host[i] = slot.data;
        bind(*context, i, !on_device() ? slot.data : slot.device.size() ? slot.device.data() : nothing());
    }
    return context;
}

char* Executor::nothing() const { return on_device() ? nothing_on_device_.data() : nothing_on_host; }

void Executor::refuse_null(const char* address, const Slot& slot) const {
    if (!address && slot.bytes)
        fail(ErrorKind::invalid_argument, name_ + ": null address for an array that is not empty");
}

void Executor::bind(Context& context, std::size_t slot, char* base) const {
    if (context.bases[slot] == base) return;
    for (const Use& use : slots_[slot].uses) {
        char* const address = base + use.offset;
        context.operands[use.operand] = address;
        if (context.tensors[use.operand])
            DGO_CALL(*context.api, graph_tensor_set_data_handle, context.tensors[use.operand], address);
    }
    context.bases[slot] = base;
}

void Executor::bind_all(Context& context, char* arena, const Addresses& arrays) const {
    if (context.arena != arena || !arena) {
        for (const std::size_t slot : scratch_slots_)
            bind(context, slot, arena ? arena + slots_[slot].offset : nothing());
        context.arena = arena;
    }
    if (on_device()) return bind_on_device(context, arrays);
    const auto bind_arguments = [&](const std::vector<std::size_t>& slots, char* const* addresses) {
        for (std::size_t i = 0; i < slots.size(); ++i) {
            refuse_null(addresses[i], slots_[slots[i]]);
            bind(context, slots[i], addresses[i] ? addresses[i] : nothing_on_host);
        }
    };
    bind_arguments(input_slots_, arrays.in);
    bind_arguments(output_slots_, arrays.out);
}

bool Executor::runs(const Step& step, const Context& context) const {
    const auto& [flag, wanted] = step.condition;
    if (flag.slot < 0) return true;
    std::int32_t value = 0;
    std::memcpy(&value, context.bases[flag.slot] + flag.offset, sizeof value);
    return (value != 0) == wanted;
}

void Executor::run_step(const Step& step, const Context& context) const {
    if (!runs(step, context)) return;
    if (step.kind == StepKind::partition) {
        const const_dnnl_graph_tensor_t* const in = context.tensors.data() + step.first;
        const const_dnnl_graph_tensor_t* const out = in + step.inputs;
        const bool scratchpad = scratchpad_bytes_ && step.partition->scratchpad_size();
        std::optional<host_task::Call> call;
        if (host_task_) call.emplace();
        step.partition->execute(context.stream->handle, in, out, scratchpad ? out[step.outputs] : nullptr);
        return;
    }
    if (wait_ && context.stream) context.stream->wait();
    if (on_device())
        run_through_host(step, context);
    else
        step.run_on_host(context.operands.data() + step.first);
}

void Executor::Step::run_on_host(char* const* operands) const {
    if (kernel)
        kernel->run(operands);
    else
        callback(operands);
}

template <class Between>
void Executor::run_range(Range steps, const Context& context, const Between& between) const {
    ComingWeights& coming = coming_weights();
    for (std::size_t s = steps.begin; s < steps.end; ++s) {
        coming = steps_[s].coming;
        run_step(steps_[s], context);
        if (s + 1 < steps_.size()) between();
    }
}

// Runs all steps; then it is known which of them start bodies of several threads: a team stands through neighbouring
// kernels that start more than one.
template <class Between>
void Executor::run_and_see(const Context& context, const Between& between) const {
    auto standing = std::make_unique<std::vector<Range>>();
    Range range{0, 0};
    std::int64_t count = 0;
    const auto end_range = [&] {
        if (count > 1) standing->push_back(range);
        count = 0;
    };
    for (std::size_t s = 0; s < steps_.size(); ++s) {
        bodies() = {};
        run_range({s, s + 1}, context, between);
        const Bodies of_step = bodies();
        if (steps_[s].kind != StepKind::kernel) {
            end_range();
        } else if (of_step.count) {
            range = {count ? range.begin : s, s + 1,
                     count ? std::max(range.threads, of_step.threads) : of_step.threads};
            count += of_step.count;
        }
    }
    end_range();
    standing->shrink_to_fit();
    const std::vector<Range>* none = nullptr;
    if (standing_.compare_exchange_strong(none, standing.get(), std::memory_order_release)) standing.release();
}

template <class Between>
void Executor::run_steps(const Context& context, const Between& between) const {
    const std::vector<Range>* const standing = standing_.load(std::memory_order_acquire);
    if (!standing && !on_device() && omp_get_max_threads() > 1) {
        run_and_see(context, between);
    } else {
        std::size_t step = 0;
        if (standing) {
            for (const Range& range : *standing) {
                run_range({step, range.begin}, context, between);
                stand(range.threads, [&] { run_range(range, context, between); });
                step = range.end;
            }
        }
        run_range({step, steps_.size()}, context, between);
    }
    if (wait_ && context.stream) context.stream->wait();
}

std::vector<Executor::Range> Executor::standing() const {
    const std::vector<Range>* const standing = standing_.load(std::memory_order_acquire);
    return standing ? *standing : std::vector<Range>{};
}

void Executor::run(const Addresses& arrays, const Poll& poll) const {
    if (!finalized_) fail(ErrorKind::invalid_argument, name_ + ": finalize the plan before running it");
    if (nothing_to_do_) return;
    call_scope::check_deadline(name_);
    fork_guard::enter();
    const ThreadCount threads(threads_);
    Lease lease(*this);
    bind_all(lease.context(), lease.arena(), arrays);
    if (poll) {
        Heartbeat heartbeat(poll);
        run_steps(lease.context(), [&] {
            heartbeat();
            call_scope::check_deadline(name_);
        });
    } else {
        run_steps(lease.context(), [] {});
    }
    if (on_device()) fetch_results(lease.context(), arrays);
    lease.done();
}

std::vector<double> Executor::benchmark(const Addresses& arrays, std::size_t repeat, const Poll& poll) const {
    run(arrays);  // what the library does only once, it does here
    std::vector<double> times;
    if (nothing_to_do_) {
        times.assign(repeat, 0.0);
        return times;
    }
    const ThreadCount threads(threads_);
    Lease lease(*this);
    bind_all(lease.context(), lease.arena(), arrays);
    const auto batch_seconds = [&](std::size_t batch) {
        const auto start = Clock::now();
        for (std::size_t i = 0; i < batch; ++i) run_steps(lease.context(), [] {});
        return seconds_since(start);
    };
    // a batch takes at least 5 us, two hundred times the time to read the clock
    double once = batch_seconds(1);
    for (int i = 0; i < 2 && once < 1e-3; ++i) once = std::min(once, batch_seconds(1));
    const std::size_t batch = once < 5e-6 ? static_cast<std::size_t>(5e-6 / std::max(once, 5e-8)) + 1 : 1;
    Heartbeat heartbeat(poll);
    for (std::size_t i = 0; i < repeat; ++i) {
        times.push_back(batch_seconds(batch) / static_cast<double>(batch));
        heartbeat();
    }
    lease.done();
    return times;
}

std::vector<double> Executor::profile(const Addresses& arrays, std::size_t repeat, const Poll& poll) const {
    run(arrays);
    std::vector<double> medians(steps_.size(), 0.0);
    if (nothing_to_do_) return medians;
    const ThreadCount threads(threads_);
    Lease lease(*this);
    bind_all(lease.context(), lease.arena(), arrays);
    std::vector<std::vector<double>> times(steps_.size());
    Heartbeat heartbeat(poll);
    for (std::size_t i = 0; i < repeat; ++i) {
        for (std::size_t s = 0; s < steps_.size(); ++s) {
            const auto start = Clock::now();
            run_step(steps_[s], lease.context());
            if (wait_ && lease.context().stream) lease.context().stream->wait();
            times[s].push_back(seconds_since(start));
        }
        heartbeat();
    }
    lease.done();
    for (std::size_t s = 0; s < steps_.size(); ++s) {
        const auto middle = times[s].begin() + static_cast<std::ptrdiff_t>(repeat / 2);
        std::nth_element(times[s].begin(), middle, times[s].end());
        medians[s] = *middle;
    }
    return medians;
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

std::size_t Executor::idle_contexts() const {
    fork_guard::check();
    const std::lock_guard lock(mutex_);
    return idle_.size() + (first_idle_.load(std::memory_order_relaxed) != nullptr);
}

}  // namespace dgo
