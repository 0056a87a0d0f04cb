// A compiled plan: slots that hold addresses and the steps (partitions, kernels, callbacks) that work on them.
// Built by one thread, then finalized; from then on any number of threads may run it at once. No Python inside.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "kernels/coming_weights.hpp"
#include "graph/partition.hpp"
#include "kernels/kernel.hpp"
#include "library/engine.hpp"
#include "memory/arena.hpp"
#include "memory/device_memory.hpp"
#include "memory/layout.hpp"

namespace dgo {

enum class SlotKind { input, output, constant, scratch };
enum class StepKind { partition, kernel, callback };
const char* step_kind_name(StepKind kind);

// An offset in the memory of a slot.
struct Ref {
    int slot = 0;
    std::int64_t offset = 0;  // bytes
};

struct Argument {
    Layout layout;
    std::string name;                          // for messages
    std::shared_ptr<const Kernel> unpack{};  // copies the elements of a result without what lies between them
};

// The arrays of one run: one address per declared input and output, of memory as declared; null is fine for empty ones.
struct Addresses {
    char* const* in = nullptr;
    char* const* out = nullptr;
    // per input, then per output: whether it is memory of the engine's device; null: all are memory of the host
    const std::uint8_t* on_device = nullptr;
};

class Executor {
public:
    using Callback = std::function<void(char* const* operands)>;
    using Poll = std::function<void()>;  // called now and then in long loops; may throw to end them

    // Bytes that a finalized plan takes between its runs, besides `constants()`: copies of constants on a device, at most
    // what the library packs of constants for it, and roughly the objects that it consists of, compiled code included.
    struct Held {
        std::size_t total() const { return constants + library + objects; }

        std::size_t constants = 0, library = 0, objects = 0;
    };

    struct Constant {
        const char* data;
        std::size_t bytes;
    };

    // A condition: the step runs if the s32 at `flag` is 0, or is not 0; always without a flag.
    struct Condition {
        Ref flag{-1, 0};
        bool wanted = false;
    };

    struct Range {
        std::size_t begin, end;
        int threads = 1;  // the most of a step
    };

    struct Step {
        StepKind kind = StepKind::kernel;
        std::string label;
        std::size_t first = 0, inputs = 0, outputs = 0;  // its operands in the table of all operands
        std::shared_ptr<const CompiledPartition> partition;
        std::shared_ptr<const Kernel> kernel;
        Callback callback;
        Condition condition;
        ComingWeights coming;  // of the next steps

        void run_on_host(char* const* operands) const;  // a kernel or callback
    };

    // engine may be null for a plan without partitions.
    Executor(std::shared_ptr<const Engine> engine, std::string name);
    ~Executor();
    Executor(const Executor&) = delete;
    Executor& operator=(const Executor&) = delete;

    // Each returns the number of the slot.
    int add_input(Layout layout);
    int add_output(Layout layout);
    int add_constant(char* data, std::size_t bytes, bool shared);  // data outlives the executor; shared: others keep it
    int add_scratch(std::size_t offset, std::size_t bytes);

    void add_partition(std::shared_ptr<const CompiledPartition> partition, const std::vector<Ref>& in,
                       const std::vector<Ref>& out, std::string label);
    // bytes: the extent of each operand; empty: unknown, which suffices for host memory.
    void add_kernel(std::shared_ptr<const Kernel> kernel, const std::vector<Ref>& refs,
                    const std::vector<std::size_t>& bytes, std::string label);
    void add_callback(Callback callback, const std::vector<Ref>& refs, const std::vector<Layout>& layouts,
                      std::string label);

    // The step added last runs only where the s32 at `flag`, which an earlier step writes, is (not) 0.
    void only_if(const Ref& flag, bool wanted);

    // threads: OpenMP threads of every run, 0 for what the calling thread has set.
    void finalize(bool release_gil, int threads);

    // poll: called between steps, a tenth of a second after the last time; null: never. The deadline of the calling
    // thread ends a run between two steps.
    void run(const Addresses& arrays, const Poll& poll = nullptr) const;
    // Seconds per execution of the steps alone; short ones are timed in batches.
    std::vector<double> benchmark(const Addresses& arrays, std::size_t repeat, const Poll& poll) const;
    // Median seconds of each step.
    std::vector<double> profile(const Addresses& arrays, std::size_t repeat, const Poll& poll) const;

    const std::string& name() const { return name_; }
    const Engine* engine() const { return engine_.get(); }
    const std::vector<Argument>& inputs() const { return inputs_; }
    const std::vector<Argument>& outputs() const { return outputs_; }
    const std::vector<Step>& steps() const { return steps_; }
    int slot_count() const { return static_cast<int>(slots_.size()); }
    SlotKind slot_kind(int slot) const { return slots_.at(static_cast<std::size_t>(slot)).kind; }
    bool finalized() const { return finalized_; }
    bool release_gil() const { return release_gil_; }
    int threads() const { return threads_; }
    std::size_t arena_bytes() const { return arena_bytes_ + scratchpad_bytes_; }
    std::size_t constant_bytes() const { return constant_bytes_; }
    Held held() const;
    // Constants that only plans keep alive, possibly several plans.
    const std::vector<Constant>& constants() const { return constants_; }
    std::size_t idle_contexts() const;
    // The ranges of steps that a team stands in from one step to the next, known after a run of several threads.
    std::vector<Range> standing() const;

private:
    struct Context;
    class Lease;
    struct Use {
        std::size_t operand;
        std::int64_t offset;
    };
    struct Slot {
        SlotKind kind;
        std::size_t offset = 0;  // of scratch in the arena
        std::size_t bytes = 0;
        char* data = nullptr;  // of a constant
        std::vector<Use> uses;
        bool in_partitions = false;  // read or written by one
        DeviceMemory device{};  // a constant's copy
    };
    struct Operand {
        int slot;
        std::int64_t offset;
        const LogicalTensor* tensor;  // null unless of a partition
        std::size_t bytes = 0;  // how far it reaches
    };

    void expect_building() const;
    int add_slot(SlotKind kind, std::size_t bytes);
    // The error in a range of bytes of a slot; empty if there is none.
    std::string misplaced(const Ref& ref, std::size_t bytes) const;
    void add_operand(const Ref& ref, std::size_t bytes, bool written, const LogicalTensor* tensor, const Step& step);
    [[noreturn]] void bad_step(const Step& step, const std::string& what) const;
    Step new_step(StepKind kind, std::string label) const;

    BlockPool& blocks() const { return engine_ ? engine_->blocks() : host_blocks(); }
    bool small() const { return !on_device() && arena_bytes() <= kSmallScratch; }
    std::size_t object_bytes() const;
    char* nothing() const;  // what an empty operand points at
    void refuse_null(const char* address, const Slot& slot) const;
    std::unique_ptr<Context> new_context() const;
    void bind(Context& context, std::size_t slot, char* base) const;
    void bind_all(Context& context, char* arena, const Addresses& arrays) const;
    void unpoison_arena(const char* arena) const;
    bool runs(const Step& step, const Context& context) const;
    void run_step(const Step& step, const Context& context) const;
    // between(): called between two steps of the plan
    template <class Between>
    void run_range(Range steps, const Context& context, const Between& between) const;
    template <class Between>
    void run_and_see(const Context& context, const Between& between) const;
    template <class Between>
    void run_steps(const Context& context, const Between& between) const;

    // For engines whose partitions work in device memory.
    bool on_device() const { return engine_ && engine_->on_device; }
    void prepare_device();
    void find_coming_weights();
    void bind_on_device(Context& context, const Addresses& arrays) const;
    void run_through_host(const Step& step, const Context& context) const;
    void fetch_results(const Context& context, const Addresses& arrays) const;
    const DeviceMemory& staging(Context& context, std::size_t slot) const;

    const std::shared_ptr<const Engine> engine_;
    const std::string name_;
    std::vector<Argument> inputs_, outputs_;
    std::vector<std::size_t> input_slots_, output_slots_, scratch_slots_;
    std::vector<Slot> slots_;
    std::vector<Operand> operands_;
    std::vector<Step> steps_;
    std::vector<Constant> constants_;
    DeviceMemory nothing_on_device_;
    std::size_t arena_bytes_ = 0, scratchpad_bytes_ = 0, constant_bytes_ = 0;
    bool finalized_ = false, release_gil_ = false, nothing_to_do_ = false, wait_ = false, host_task_ = false;
    int threads_ = 0;

    mutable std::atomic<const std::vector<Range>*> standing_{nullptr};
    mutable std::atomic<Context*> first_idle_{nullptr};  // saves the lock when one thread runs at a time
    mutable std::mutex mutex_;
    mutable std::vector<std::unique_ptr<Context>> idle_;
};

}  // namespace dgo
