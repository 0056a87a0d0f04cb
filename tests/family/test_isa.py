"""The family's fixed and random tests once more on smaller instruction sets than the CPU has."""

import pytest
from children import child

# instruction set to run on, and a flag of CPUs that have more
FLAGS = {"AVX2": "avx512f", "AVX512_CORE": "avx512_bf16"}
SECONDS = 580
FAMILY = ("family/test_cases.py", "family/test_random.py")


def cpu_flags() -> set[str]:
    with open("/proc/cpuinfo") as cpu:
        return {flag for line in cpu if line.startswith("flags") for flag in line.split(":")[1].split()}


@pytest.mark.child
@pytest.mark.parametrize("isa", FLAGS)
def test_family_on(isa, seed):
    if FLAGS[isa] not in cpu_flags():
        pytest.skip(f"this CPU has no more than {isa}")
    arguments = ("-m", "pytest", "-q", "-p", "no:cacheprovider", f"--seed={seed}", *FAMILY)
    done = child(*arguments, seconds=SECONDS, ONEDNN_MAX_CPU_ISA=isa)
    assert done.returncode == 0, done.stdout[-6000:]
