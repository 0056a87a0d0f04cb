#include "kernels/team.hpp"

#include <linux/futex.h>
#include <omp.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <thread>

#include "kernels/standing.hpp"

namespace dgo {
namespace {

using Word = std::atomic<std::uint32_t>;

// Threads that share a line of memory to be told and to say that they have ended; more of them take turns too long.
constexpr int kGroup = 8;
constexpr int kMemberBits = 4;  // of the number of a group's threads
constexpr std::uint32_t kMembers = (1u << kMemberBits) - 1;

// How often a thread looks before it sleeps, as OpenMP's threads do, see dnnl_graph_ops/_openmp.py.
constexpr int kRounds = 2000, kRoundsOfMany = 100;

int rounds_of(int threads) {
    static const int told = [] {
        if (const char* rounds = std::getenv("GOMP_SPINCOUNT")) return std::atoi(rounds) > 0 ? std::atoi(rounds) : 0;
        const char* policy = std::getenv("OMP_WAIT_POLICY");
        if (policy && !strcasecmp(policy, "passive")) return 0;
        return policy && !strcasecmp(policy, "active") ? INT_MAX : kRounds;
    }();
    static const int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
    return threads > cores ? std::min(told, kRoundsOfMany) : told;
}

void pause() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

// The threads that one caller's bodies run in.
class Team {
public:
    // Before a region of so many threads, when none is in one. Returns the word at which its members begin to wait.
    std::uint32_t prepare(int threads) {
        const int groups = (threads + kGroup - 1) / kGroup;
        if (groups > count_) {
            groups_ = std::make_unique<Group[]>(static_cast<std::size_t>(groups));
            count_ = groups;
        }
        rounds_ = rounds_of(threads);
        const std::uint32_t word = number_ << kMemberBits;
        for (int g = 0; g < groups; ++g) groups_[g].job.store(word, std::memory_order_relaxed);
        return word;
    }

    // Runs a body in the first threads of a team that waits in serve().
    void lead(int threads, DgoTeamBody body, void* data) {
        body_ = body;
        data_ = data;
        threads_ = threads;
        const std::uint32_t before = ended_.load(std::memory_order_relaxed);
        tell(threads);
        body(data, 0, threads);
        if (!arrive(0, threads)) wait(ended_, before);
    }

    // Runs bodies until dismiss().
    void serve(int rank, std::uint32_t word);

    void dismiss(int size) {
        body_ = nullptr;
        tell(size);
    }

    void barrier(int rank, int threads) {
        Word& passed = groups_[rank / kGroup].passed;
        const std::uint32_t before = passed.load(std::memory_order_relaxed);
        if (!arrived(rank, threads)) return wait(passed, before);
        for (int first = 0; first < threads; first += kGroup) {
            groups_[first / kGroup].passed.fetch_add(1, std::memory_order_release);
        }
        wake(threads, &Group::passed);
    }

    int size = 1;

private:
    struct Group {
        alignas(64) Word job{0};  // the number of a body, and how many of the group run it
        alignas(64) Word passed{0};
        alignas(64) std::atomic<int> arrived{0};
    };

    void tell(int threads) {
        ++number_;
        for (int first = 0; first < threads; first += kGroup) {
            const int members = std::min(kGroup, threads - first);
            groups_[first / kGroup].job.store(number_ << kMemberBits | static_cast<std::uint32_t>(members),
                                              std::memory_order_release);
        }
        wake(threads, &Group::job);
    }

    // Whether all threads have arrived; the counters begin anew for the last one.
    bool arrived(int rank, int threads) {
        const int g = rank / kGroup, members = std::min(kGroup, threads - g * kGroup);
        if (groups_[g].arrived.fetch_add(1, std::memory_order_acq_rel) + 1 < members) return false;
        groups_[g].arrived.store(0, std::memory_order_relaxed);
        const int groups = (threads + kGroup - 1) / kGroup;
        if (groups == 1) return true;
        if (whole_groups_.fetch_add(1, std::memory_order_acq_rel) + 1 < groups) return false;
        whole_groups_.store(0, std::memory_order_relaxed);
        return true;
    }

    bool arrive(int rank, int threads) {
        if (!arrived(rank, threads)) return false;
        ended_.fetch_add(1, std::memory_order_release);
        wake(ended_);
        return true;
    }

    void wait(Word& word, std::uint32_t seen) {
        for (int round = 0; round < rounds_; ++round) {
            if (word.load(std::memory_order_acquire) != seen) return;
            pause();
        }
        sleepers_.fetch_add(1, std::memory_order_seq_cst);
        while (word.load(std::memory_order_seq_cst) == seen) {
            syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, seen, nullptr, nullptr, 0);
        }
        sleepers_.fetch_sub(1, std::memory_order_relaxed);
    }

    bool any_sleeps() {
        std::atomic_thread_fence(std::memory_order_seq_cst);
        return sleepers_.load(std::memory_order_relaxed) > 0;
    }
    static void wake_all(Word& word) { syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0); }
    void wake(Word& word) {
        if (any_sleeps()) wake_all(word);
    }
    void wake(int threads, Word Group::* word) {
        if (!any_sleeps()) return;
        for (int first = 0; first < threads; first += kGroup) wake_all(groups_[first / kGroup].*word);
    }

    std::unique_ptr<Group[]> groups_;
    int count_ = 0, rounds_ = 0;
    std::uint32_t number_ = 0;
    // of the body that is run: read only by those who run it
    DgoTeamBody body_ = nullptr;
    void* data_ = nullptr;
    int threads_ = 1;
    alignas(64) std::atomic<int> whole_groups_{0};
    alignas(64) Word ended_{0};
    alignas(64) std::atomic<int> sleepers_{0};
};

// The place of the calling thread in a team.
struct Here {
    Team* team = nullptr;  // null: of one thread
    int rank = 0, size = 1;
    bool in_body = false;
};
thread_local Here here;
thread_local Team* standing = nullptr;  // of the thread that leads it
thread_local int last_size = 1;  // of a region

// Returns the size of a region for `threads` threads: those that the last one has stay, unless fewer are wanted now.
int region_size(int threads) {
    last_size = std::max(threads, std::min(last_size, omp_get_max_threads()));
    return last_size;
}

Team& own_team() {
    static thread_local Team own;
    return own;
}

void call(const Here& as, DgoTeamBody body, void* data) {
    const Here before = here;
    here = as;
    body(data, as.rank, as.size);
    here = before;
}

void Team::serve(int rank, std::uint32_t word) {
    Word& job = groups_[rank / kGroup].job;
    const auto index = static_cast<std::uint32_t>(rank % kGroup);
    while (true) {
        wait(job, word);
        word = job.load(std::memory_order_acquire);
        if ((word & kMembers) <= index) continue;
        if (!body_) return;
        const int threads = threads_;
        call({this, rank, threads, true}, body_, data_);
        arrive(rank, threads);
    }
}

}  // namespace

namespace team {

bool busy() { return here.in_body || (!standing && omp_in_parallel()); }

void run(int threads, DgoTeamBody body, void* data) {
    if (threads <= 1 || busy()) return call({nullptr, 0, 1, here.in_body}, body, data);
    Bodies& here = bodies();
    ++here.count;
    here.threads = std::max(here.threads, threads);
    dgo_team_run(threads, body, data);
}

}  // namespace team

Bodies& bodies() {
    static thread_local Bodies of_thread;
    return of_thread;
}

}  // namespace dgo

using namespace dgo;

void dgo_team_run(int threads, DgoTeamBody body, void* data) {
    if (standing) {
        threads = std::min(threads, standing->size);
        const Here before = here;
        here = {standing, 0, threads, true};
        standing->lead(threads, body, data);
        here = before;
        return;
    }
    const int whole = region_size(threads);
    Team& team = own_team();
    team.prepare(whole);
#pragma omp parallel num_threads(whole)
    {
        const int rank = omp_get_thread_num(), size = std::min(threads, omp_get_num_threads());
        if (rank < size) call({&team, rank, size, true}, body, data);
    }
}

void dgo_team_barrier() {
    if (here.size > 1) here.team->barrier(here.rank, here.size);
}

int64_t dgo_team_next(int64_t* next, int64_t) { return __atomic_fetch_add(next, 1, __ATOMIC_RELAXED); }

void dgo_team_stand(int threads, void (*steps)(void*), void* data) {
    if (omp_get_max_threads() == 1 || standing || team::busy()) return steps(data);
    const int whole = region_size(threads);
    Team& team = own_team();
    const std::uint32_t word = team.prepare(whole);
    std::exception_ptr error;
#pragma omp parallel num_threads(whole)
    {
        const int rank = omp_get_thread_num();
        if (rank == 0) {
            standing = &team;
            team.size = omp_get_num_threads();
            try {
                steps(data);
            } catch (...) {
                error = std::current_exception();
            }
            standing = nullptr;
            team.dismiss(team.size);
        } else {
            team.serve(rank, word);
        }
    }
    if (error) std::rethrow_exception(error);
}
