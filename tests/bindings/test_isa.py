"""Which instruction set the builtin kernels use, and how to force one."""

import functools
import json

import pytest
from children import child

from dnnl_graph_ops._core import kernels

from .emulated import built, emulated, needs_emulated_sets

pytestmark = pytest.mark.child

NEEDED = {"avx512f", "avx512bw", "avx512dq", "avx512vl"}
PROGRAM = """
from dnnl_graph_ops import _core, errors
try:
    print(_core.kernels.isa())
except errors.Error as error:
    print(type(error).__name__, error)
"""


def cpu_flags() -> set[str]:
    with open("/proc/cpuinfo") as cpu:
        return {flag for line in cpu if line.startswith("flags") for flag in line.split(":")[1].split()}


@functools.cache
def isa(forced: str = "", limit: str = "", older_limit: str = "") -> str:
    """The instruction set of a process of its own, or its error."""
    variables = {"DNNL_GRAPH_OPS_ISA": forced, "ONEDNN_MAX_CPU_ISA": limit, "DNNL_MAX_CPU_ISA": older_limit}
    done = child("-c", PROGRAM, **variables)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_widest_is_the_default():
    # other CPUs run it where the build emulates it
    wide = cpu_flags() >= NEEDED or isa("avx512") == "avx512"
    assert isa() == ("avx512" if wide else "avx2")


@pytest.mark.parametrize("limit", ["AVX2", "avx2_vnni"])
def test_the_librarys_limit_holds_here_too(limit):
    assert isa(limit=limit) == "avx2"
    assert isa(older_limit=limit) == "avx2"
    assert isa(limit="DEFAULT", older_limit=limit) == isa()


def test_the_narrow_one_can_be_forced():
    assert isa("avx2") == "avx2"


def test_the_wide_one_can_be_forced_where_it_runs():
    forced = isa("avx512", limit="AVX2")
    if isa() == "avx512":
        assert forced == "avx512"
    else:
        assert forced.startswith("RuntimeUnavailableError builtin kernels by 'avx512' do not run here: this CPU")


def test_an_unknown_name_is_refused():
    assert isa("sse2").startswith("InvalidArgumentError DNNL_GRAPH_OPS_ISA is 'sse2', which is no instruction set")


NARROW = """
from dnnl_graph_ops import _core, errors
try:
    print(*_core.kernels.bf16_isa(), sep=": ")
except errors.Error as error:
    print(type(error).__name__, error)
"""


@functools.cache
def bf16_isa(**variables: str) -> str:
    """The set of narrow products of a process of its own and why it is no better one, or its error."""
    names = {"isa": "DNNL_GRAPH_OPS_ISA", "narrow": "DNNL_GRAPH_OPS_NARROW", "limit": "ONEDNN_MAX_CPU_ISA"}
    done = child("-c", NARROW, **{name: variables.get(key, "") for key, name in names.items()})
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_best_set_of_narrow_products_is_the_default():
    found, flags = bf16_isa(), cpu_flags()
    if "avx512_bf16" not in flags:
        assert found == ": this CPU lacks AVX512-BF16"
    elif "amx_bf16" not in flags:
        assert found == "avx512bf16: this CPU lacks AMX-BF16"
    else:
        assert found == "amx:" or found.startswith("avx512bf16: the operating system refuses tiles")


@pytest.mark.parametrize("limit", ["AVX2", "avx512_core"])
def test_bf16_products_obey_the_librarys_limit(limit):
    assert bf16_isa(limit=limit) == f": ONEDNN_MAX_CPU_ISA is {limit.upper()}"
    if "avx512_bf16" in cpu_flags():
        assert bf16_isa(limit="AVX512_CORE_BF16") == "avx512bf16: ONEDNN_MAX_CPU_ISA is AVX512_CORE_BF16"


def test_a_set_of_narrow_products_by_its_name():
    assert bf16_isa(isa="avx2") == ": DNNL_GRAPH_OPS_ISA is avx2"
    assert bf16_isa(narrow="none") == ": DNNL_GRAPH_OPS_NARROW is none"
    assert bf16_isa(narrow="sse2").startswith("InvalidArgumentError DNNL_GRAPH_OPS_NARROW is 'sse2', which is no")
    if "amx_bf16" not in cpu_flags():
        found = bf16_isa(narrow="amx")
        assert found.startswith("RuntimeUnavailableError narrow products by 'amx' do not run here: this CPU lacks")


def test_an_emulated_set_by_its_name():
    found = bf16_isa(isa="avx2", narrow="emulated")
    if built():
        assert found == "emulated: DNNL_GRAPH_OPS_NARROW is emulated"
    else:
        assert found.startswith("RuntimeUnavailableError narrow products by 'emulated' do not run here: this build")
        assert "DGO_TEST_SETS=ON" in found


INFO = """
import json
from dnnl_graph_ops.runtime.info import own_kernels
print(json.dumps(own_kernels()))
"""


@functools.cache
def own_kernels(**variables):
    done = child("-c", INFO, **{"DNNL_GRAPH_OPS_ISA": "", "ONEDNN_MAX_CPU_ISA": "", **variables})
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_info_says_which_set_each_dtype_has_and_why_no_better_one():
    found = own_kernels()
    assert list(found) == ["f32", "bf16", "f16", "s8"]
    assert found["f32"]["set"] == isa()
    narrow, _, reason = bf16_isa().partition(":")
    assert found["bf16"]["set"] == (narrow or isa())
    reasons = {reason.strip()} | ({kernels.isa_reason()} if not narrow else set())
    assert set(found["bf16"].get("not", {}).values()) == reasons - {""}
    integer, missing = kernels.int8_isa()
    assert found["s8"]["set"] == (integer or "none")
    assert set(found["s8"].get("not", {}).values()) == ({missing} if missing else set())
    for row in found.values():
        assert row["set"] not in row.get("not", {})


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("ONEDNN_MAX_CPU_ISA", "avx2", "ONEDNN_MAX_CPU_ISA is AVX2"),
        ("DNNL_GRAPH_OPS_ISA", "avx2", "DNNL_GRAPH_OPS_ISA is avx2"),
    ],
)
def test_info_names_what_was_asked_for(variable, value, said):
    found = own_kernels(**{variable: value})
    assert found["f32"] == {"set": "avx2", "not": {"avx512": said}}
    assert found["bf16"] == {"set": "avx2", "not": {"amx": said, "avx512bf16": said, "avx512": said}}
    assert found["f16"]["not"]["avx512"] == said
    assert found["s8"] == {"set": "avx2words", "not": {"amxint8": said, "avx512vnni": said, "avxvnni": said}}


@needs_emulated_sets
def test_info_names_a_set_of_narrow_products_that_was_asked_for():
    said = "DNNL_GRAPH_OPS_NARROW is emulated"
    found = own_kernels(DNNL_GRAPH_OPS_NARROW="emulated")["bf16"]
    assert found == {"set": "emulated", "not": {"amx": said, "avx512bf16": said}}


@pytest.mark.parametrize("name", [emulated("emulatedint8"), emulated("emulatedint8tiles"), "avx2words", "none"])
def test_info_names_a_set_of_integers_that_was_asked_for(name):
    better = [one for one in ("amxint8", "avx512vnni", "avxvnni", "avx2words") if one != name]
    said = dict.fromkeys(better, f"DNNL_GRAPH_OPS_INT8 is {name}")
    assert own_kernels(DNNL_GRAPH_OPS_INT8=name)["s8"] == {"set": name, "not": said}


@pytest.mark.parametrize(
    ("name", "flag", "lacking"),
    [
        ("amxint8", "amx_int8", "this CPU lacks A"),
        ("avx512vnni", "avx512_vnni", "this CPU lacks AVX512-VNNI"),
        ("avxvnni", "avx_vnni", "this CPU lacks AVX-VNNI"),
    ],
)
def test_a_set_of_integers_that_the_cpu_lacks(name, flag, lacking):
    if flag in cpu_flags():
        assert own_kernels(DNNL_GRAPH_OPS_INT8=name)["s8"]["set"] == name
    else:
        assert lacking in own_kernels(DNNL_GRAPH_OPS_INT8=name)["error"]


def test_short_quads_are_allowed_where_the_library_may_use_them():
    found = own_kernels(ONEDNN_MAX_CPU_ISA="AVX2_VNNI")["s8"]
    assert found["set"] == ("avxvnni" if "avx_vnni" in cpu_flags() else "avx2words")
    assert found["not"]["avx512vnni"] == (
        "ONEDNN_MAX_CPU_ISA is AVX2_VNNI" if found["set"] == "avxvnni" else "this CPU lacks AVX-VNNI"
    )


def test_info_goes_on_without_a_set():
    assert "which is no instruction set" in own_kernels(DNNL_GRAPH_OPS_ISA="sse2")["error"]
