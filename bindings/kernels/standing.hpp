// Teams that stand: their threads wait for the next body within one region, which takes less time than to wake them.
#pragma once

#include <cstdint>
#include <type_traits>

// benchmarks/cores.c replaces this.
extern "C" __attribute__((visibility("default"))) void dgo_team_stand(int threads, void (*steps)(void*), void* data);

namespace dgo {

// The bodies of several threads that the calling thread has run: how many, and the most threads of one.
struct Bodies {
    int64_t count = 0;
    int threads = 1;
};
Bodies& bodies();

// Calls steps(), whose bodies a team of at least `threads` threads runs that stands until steps() ends. Throws what steps()
// throws.
template <class Steps>
void stand(int threads, Steps&& steps) {
    using Plain = std::remove_reference_t<Steps>;
    dgo_team_stand(
        threads, [](void* data) { (*static_cast<Plain*>(data))(); },
        const_cast<void*>(static_cast<const void*>(&steps)));
}

}  // namespace dgo
