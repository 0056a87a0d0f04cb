"""The build's check that vector code of one instruction set cannot be merged into another's."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CHECK = Path(__file__).parents[2] / "cmake" / "isa_symbols.py"
COMPILER = shutil.which("c++")
pytestmark = pytest.mark.skipif(COMPILER is None or shutil.which("nm") is None, reason="needs a C++ compiler and nm")

OWN = """
namespace dgo::avx2 {
namespace { int hidden(int a) { return a + 1; } }
struct Base { virtual ~Base() {} };
inline int kept() { static Base base; static int count = 0; return ++count + hidden(count) + (&base != nullptr); }
template <class T> __attribute__((noinline)) T twice(T a) { return a + a; }
int run(int a) { return twice(a) + kept(); }
}
"""
FOREIGN = {
    "an inline function of the outer namespace": "namespace dgo { inline int f(int a) { return a; } auto* at = &f; }",
    "a template of a library": "namespace std_ { template <class T> T f(T a) { return a; } } "
    "namespace dgo::avx2 { auto* at = &std_::f<int>; }",
    "a function of another set": "namespace dgo::avx512 { int f() { return 1; } }",
    "a namespace that begins alike": "namespace dgo::avx2x { int f() { return 1; } }",
    "a name without a namespace": 'extern "C" int f() { return 1; }',
}


def compiled(folder: Path, name: str, text: str) -> str:
    source = folder / f"{name}.cpp"
    source.write_text(text)
    target = folder / f"{name}.o"
    subprocess.run([COMPILER, "-std=c++17", "-O0", "-fPIC", "-c", source, "-o", target], check=True)
    return str(target)


def check(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, CHECK, "nm", *arguments], capture_output=True, text=True)


@pytest.mark.child
def test_what_stays_in_its_namespace_passes(tmp_path):
    own = compiled(tmp_path, "own", OWN)
    wide = compiled(tmp_path, "wide", OWN.replace("avx2", "avx512"))
    done = check("avx2", own, "--", "avx512", wide)
    assert (done.returncode, done.stderr) == (0, "")
    assert check("avx2", own, "--", "avx512", own).returncode == 1


@pytest.mark.child
@pytest.mark.parametrize("what", FOREIGN)
def test_what_could_be_merged_fails_the_build(tmp_path, what):
    own, foreign = compiled(tmp_path, "own", OWN), compiled(tmp_path, "foreign", FOREIGN[what])
    done = check("avx2", own, foreign)
    assert done.returncode == 1
    assert f"{foreign} defines" in done.stderr and "outside dgo::avx2" in done.stderr


@pytest.mark.child
def test_a_set_without_symbols_is_not_taken_for_a_good_one(tmp_path):
    assert "nothing was checked" in check("avx2", compiled(tmp_path, "none", "static int f();")).stderr
