"""The loop that kernels share work with, and the memory that they work in."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from children import child

pytestmark = pytest.mark.child

BINDINGS = Path(__file__).resolve().parents[2] / "bindings"
TEAM = BINDINGS / "kernels" / "team.cpp"
PROGRAM = """
#include "kernels/parallel.hpp"

#include <atomic>
#include <cstdio>
#include <new>
#include <vector>

int main() {
    omp_set_num_threads(4);
    for (int thrower = 0; thrower < 5; ++thrower) {
        std::vector<std::atomic<int>> seen(1000);
        bool caught = false;
        try {
            dgo::parallel_parts(4, 1000, [&](int64_t begin, int64_t end, int rank) {
                for (int64_t i = begin; i < end; ++i) ++seen[static_cast<size_t>(i)];
                if (rank == thrower || thrower == 4) throw std::bad_alloc();
            });
        } catch (const std::bad_alloc&) {
            caught = true;
        }
        int once = 0;
        for (const auto& count : seen) once += count == 1;
        std::printf("%d %d\\n", caught, once);
    }
    try {
        dgo::parallel_for(8, 1e9, [](int64_t, int64_t) { throw 1; });
    } catch (int) {
        std::puts("caught");
    }
    std::printf("%d %d %d\\n", dgo::threads_for(8, 1e300), dgo::threads_for(8, 1000.0), dgo::threads_for(1, 1e9));
}
"""


# Bodies of 19 threads in groups of 8, 8 and 3, in a region each or in a team that stands; some begin after its threads
# have gone to sleep.
TEAMS = """
#include "kernels/parallel.hpp"
#include "kernels/standing.hpp"

#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <vector>

constexpr int kThreads = 19, kTasks = 300;

// Two loops of tasks that are shared out by turns, and one that reads what both have written.
int wrong_bodies(int threads) {
    std::vector<int> first(kTasks), second(kTasks), of_rank(kThreads);
    std::atomic<int> wrong{0};
    dgo::Turns turns;
    dgo::run_team(threads, [&](int rank, int size) {
        dgo::Loops loops(turns, size);
        of_rank[rank] = size;
        loops.run(kTasks, [&](int64_t task) { first[task] += 1 + static_cast<int>(task); });
        dgo_team_barrier();
        loops.run(kTasks, [&](int64_t task) { second[task] += first[kTasks - 1 - task]; });
        dgo_team_barrier();
        loops.run(kTasks, [&](int64_t task) { wrong += second[kTasks - 1 - task] != 1 + task; });
        // a body within a body has one thread, and no barrier to wait at
        dgo::run_team(threads, [&](int, int inner) { wrong += inner != 1; });
        dgo::run_team(1, [&](int, int) { dgo_team_barrier(); });
    });
    for (int rank = 0; rank < kThreads; ++rank) wrong += of_rank[rank] != (rank < threads ? threads : 0);
    return wrong;
}

long last_thread() {
    long id = 0;
    dgo::run_team(kThreads, [&](int rank, int size) {
        if (rank == size - 1) id = gettid();
    });
    return id;
}

int main() {
    omp_set_num_threads(kThreads);
    int wrong = 0;
    const long last = last_thread();
    for (int threads = 2; threads <= kThreads; ++threads) {
        wrong += wrong_bodies(threads) + (last_thread() != last);
        dgo::stand(threads, [&] {
            wrong += wrong_bodies(threads) + wrong_bodies(threads > 2 ? threads - 1 : 2);
            if (threads % 8 == 0) usleep(20000);
            wrong += wrong_bodies(threads) + dgo::team::busy() + (dgo::threads_for(8, 1e9) != 8);
            dgo::stand(threads, [&] { wrong += wrong_bodies(threads); });
        });
        wrong += last_thread() != last;
    }
    try {
        dgo::stand(4, [] { throw 1; });
    } catch (int) {
        std::puts("caught");
    }
    omp_set_num_threads(1);
    dgo::stand(4, [&] { wrong += dgo::threads_for(8, 1e9) != 1; });
    std::printf("%d\\n", wrong);
}
"""


def output_of(program, folder):
    """Returns the lines that a C++ program of kernels writes."""
    source, binary = folder / "main.cpp", folder / "main"
    source.write_text(program)
    command = ["g++", "-std=c++17", "-fopenmp", f"-I{BINDINGS}", str(source), str(TEAM), "-o", str(binary)]
    subprocess.run(command, check=True, timeout=120)
    done = subprocess.run([binary], capture_output=True, text=True, timeout=60, env={**os.environ, "OMP_DYNAMIC": "0"})
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


needs_sources = pytest.mark.skipif(not TEAM.exists() or not shutil.which("g++"), reason="needs the sources and g++")


@needs_sources
def test_what_a_part_throws_is_thrown_outside(tmp_path):
    """An exception that leaves an OpenMP region ends the process."""
    assert output_of(PROGRAM, tmp_path) == ["1", "1000"] * 5 + ["caught", "4", "1", "1"]


@needs_sources
def test_teams(tmp_path):
    """libgomp ended threads after each region of fewer, and started others in the next one."""
    assert output_of(TEAMS, tmp_path) == ["caught", "0"]


SCRATCH = """
import numpy as np
import dnnl_graph_ops as dgo
from dnnl_graph_ops import _core

# rows of 64 channels of 64 x 64 rows, 5 apart, in f32: over 60 MB of copies
x, w = np.ones((1, 64, 8, 64, 512), np.float32), np.ones((64, 1, 3, 3, 3), np.float32)
attrs = dict(groups=64, data_format="NCX", weights_format="IOX", dilations=(3, 20, 1), pads_begin=(3, 20, 1),
             pads_end=(3, 20, 1))
y = dgo.conv_transpose(x, w, **attrs)
# the copies are shared by all plans, counted, and given back
assert _core.idle_scratch_bytes() > 1 << 22, _core.idle_scratch_bytes()
dgo.clear_caches()
assert _core.idle_scratch_bytes() == 0
assert (dgo.conv_transpose(x, w, **attrs) == y).all()
print("done")
"""


def test_scratch_of_kernels_is_given_back():
    done = child("-c", SCRATCH)
    assert done.stdout == "done\n", done.stderr


PACKING = """
import os
import numpy as np
import dnnl_graph_ops as dgo

dgo.set_num_threads(1)
before = len(os.listdir("/proc/self/task"))
graph = dgo.Graph()
weights = np.ones((4, 4, 256, 256), np.float32)
for name in ("deconvolution", "builtin direct"):
    y = dgo.ops.conv_transpose(graph.input(name, (1, 8, 8, 256)), weights, strides=2)
    net = graph.compile(y, algorithms={y.node.name: name})
    net(np.ones((1, 8, 8, 256), np.float32))
    assert name in str(net.explain())
x = np.ones((1, 8, 8, 256), np.float32)
dgo.conv_transpose(x, weights, strides=2)
dgo.conv_transpose_backward_data(dgo.conv_transpose(x, weights, strides=2), weights, strides=2)
assert len(os.listdir("/proc/self/task")) == before
print("done")
"""


def test_packing_keeps_to_the_number_of_threads():
    """Weights were packed by as many threads as OpenMP had at first."""
    done = child("-c", PACKING, OMP_NUM_THREADS="4")
    assert done.stdout == "done\n", done.stderr


SHORT_OF_MEMORY = """
import resource
import numpy as np
import dnnl_graph_ops as dgo

x, w = np.ones((1, 64, 8, 64, 512), np.float32), np.ones((64, 1, 3, 3, 3), np.float32)
attrs = dict(groups=64, data_format="NCX", weights_format="IOX", dilations=(3, 20, 1), pads_begin=(3, 20, 1),
             pads_end=(3, 20, 1))
small = dgo.conv_transpose(x[..., :8], w, **attrs)
out = np.empty(dgo.conv_transpose_output_shape(x.shape, w.shape, **attrs), np.float32)
used = int(open("/proc/self/statm").read().split()[0]) * 4096
resource.setrlimit(resource.RLIMIT_AS, (used + (4 << 20), -1))
if resource.getrlimit(resource.RLIMIT_AS)[0] < 0:
    raise SystemExit("no limits here")
try:
    dgo.conv_transpose(x, w, out=out, **attrs)
except (MemoryError, dgo.Error) as error:
    print(type(error).__name__)
resource.setrlimit(resource.RLIMIT_AS, (-1, -1))
assert (dgo.conv_transpose(x, w, out=out, **attrs)[..., 2:-2] >= 1).all()
"""


def test_scratch_that_is_not_there_is_a_memory_error():
    """With two threads this ended in SIGABRT."""
    done = child("-c", SHORT_OF_MEMORY, OMP_NUM_THREADS="2")
    if done.stderr == "no limits here\n":
        pytest.skip("a sanitizer's build knows no limit of memory")
    assert done.returncode == 0, done.stderr
    assert done.stdout in ("MemoryError\n", "Error\n")
