// How a plan runs: contexts with the addresses of a run, the steps on them, and their times.
#include "plan/executor.hpp"

#include <omp.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <optional>
#include <thread>

#include "kernels/standing.hpp"
#include "library/fork_guard.hpp"
#include "library/host_task.hpp"
#include "library/status.hpp"
#include "library/threads.hpp"
#include "memory/poison.hpp"
#include "plan/call_scope.hpp"
#include "plan/executor_context.hpp"

namespace dgo {
namespace {

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
        owner.unpoison_arena(arena());
        if (!owner.on_device()) fill_with_nan(arena(), owner.arena_bytes());
    }
    ~Lease() {
        if (!done_) context_->settle();
        owner_.unpoison_arena(arena());
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

// The arrays of a step do not lie where those of the step before did.
void Executor::unpoison_arena(const char* arena) const {
    if (!on_device()) unpoison(arena, arena_bytes());
}

void Executor::run_step(const Step& step, const Context& context) const {
    unpoison_arena(context.arena);
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

std::size_t Executor::idle_contexts() const {
    fork_guard::check();
    const std::lock_guard lock(mutex_);
    return idle_.size() + (first_idle_.load(std::memory_order_relaxed) != nullptr);
}

}  // namespace dgo
