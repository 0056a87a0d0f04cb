#include "kernels/coming_weights.hpp"

namespace dgo {

ComingWeights& coming_weights() {
    thread_local ComingWeights coming;
    return coming;
}

}  // namespace dgo
