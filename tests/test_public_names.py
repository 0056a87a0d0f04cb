"""What an editor shows: public classes have the names that users have a use for, signatures types without quotes."""

import inspect
from dataclasses import fields, is_dataclass
from enum import Enum
from importlib import import_module

import numpy as np
import pytest

import dnnl_graph_ops as dgo
from dnnl_graph_ops import bench, graph_api

PARAMETERS = "in_channels out_channels kernel_size stride padding dilation groups conv_mode compute_mode"
CONV = f"{PARAMETERS} name dtype data_format engine weight bias weight_grad bias_grad backward output_shape"
CONV += " state_dict load_state_dict"
# class: its public names; of a dataclass, those besides its fields
NAMES = {
    dgo.AlgorithmInfo: "workspace",
    dgo.DeviceArray: """shape dtype engine strides ndim size itemsize nbytes extent address writable
        strided from_numpy from_dlpack to_numpy copy_from""",
    dgo.Engine: "kind index runtime memory on_host from_sycl",
    dgo.Graph: """engine fpmath_mode name nodes inputs constants outputs
        input constant compile from_json to_json to_dot""",
    dgo.Net: """graph engine inputs outputs input_names output_names prepare run stream submit save to_dot to_svg
        graph_api partitions explain algorithms benchmark profile precision_report plan_count clear_plans""",
    dgo.Pool: "workers threads waiting submit prepare close running queued",
    dgo.Runtime: "version version_info cpu_runtime gpu_runtime",
    dgo.Support: "",
    dgo.Value: "shape dtype name graph strides ndim node constant is_constant reshape T",
    dgo.nn.Conv1d: CONV,
    dgo.nn.Conv2d: CONV,
    dgo.nn.Conv3d: CONV,
    dgo.nn.ConvTranspose1d: f"{CONV} output_padding",
    dgo.nn.ConvTranspose2d: f"{CONV} output_padding",
    dgo.nn.ConvTranspose3d: f"{CONV} output_padding",
    dgo.quantize.Calibration: "compile to_onnx",
    dgo.quantize.LayerReport: "",
    dgo.quantize.LeftReport: "",
    dgo.quantize.OutputReport: "",
    graph_api.allocator: "",
    graph_api.compiled_partition: "execute query_logical_tensor get_inplace_ports get_scratchpad_logical_tensor",
    graph_api.partition: """policy fusion debug compile is_supported get_id get_engine_kind get_ops get_ops_num
        get_input_ports get_output_ports""",
    graph_api.stream: "flags default_flags in_order out_of_order wait get_engine",
    graph_api.tensor: """from_numpy make_scalar_tensor to_numpy get_data_handle set_data_handle get_logical_tensor
        get_engine""",
}


def public(item):
    """Public names of a class, or of an object with those of its class."""
    inherited = {name for base in (tuple, list, BaseException) if isinstance(item, base) for name in dir(base)}
    return {name for name in dir(item) if not name.startswith("_")} - inherited


def objects():
    """An object of each class whose names its constructor adds to, by the class."""
    graph = dgo.Graph()
    x = graph.input("x", (1, 2))
    modules = (getattr(dgo.nn, name)(1, 1, 1) for name in dgo.nn.__all__)
    items = (graph, x, graph.compile(dgo.ops.relu(x)), dgo.engine(), dgo.DeviceArray((2,)), dgo.Pool(1), *modules)
    return {type(item): item for item in items}


@pytest.fixture(scope="module")
def made():
    return objects()


@pytest.mark.parametrize("owner", NAMES, ids=lambda owner: f"{owner.__module__}.{owner.__name__}")
def test_a_class_shows_public_names_only(owner, made):
    of_data = (
        {field.name for field in fields(owner) if not field.name.startswith("_")} if is_dataclass(owner) else set()
    )
    shown = public(owner) | public(made.get(owner, owner)) | of_data
    assert shown == of_data | set(NAMES[owner].split())


def test_every_class_is_listed():
    modules = (dgo, dgo.nn, dgo.quantize)
    classes = {item for module in modules for name in module.__all__ if inspect.isclass(item := getattr(module, name))}
    assert {one for one in classes if not issubclass(one, Exception)} - {dgo.Explanation} == {
        owner for owner in NAMES if not owner.__module__.startswith(graph_api.__name__)
    }


@pytest.mark.parametrize("way", ["bench", "torch", "Explanation"])
def test_names_of_records_have_a_meaning_of_their_own(way):
    """Classes that others extend: each public name is a field, or says what it is."""
    if way == "torch":
        module = pytest.importorskip("dnnl_graph_ops.torch", reason="needs the extra 'torch'")
        owners = [module.LayerTime, module.Report]
    else:
        owners = [dgo.Explanation] if way == "Explanation" else [getattr(bench, name) for name in bench.__all__]
    for owner in filter(inspect.isclass, owners):
        named = {field.name for field in fields(owner)} if is_dataclass(owner) else set()
        silent = [name for name in public(owner) - named if not inspect.getdoc(getattr(owner, name))]
        assert not silent, owner


def test_a_net_of_a_model_that_is_no_single_graph_shows_as_much():
    helper = pytest.importorskip("onnx", reason="needs the extra 'onnx'").helper
    nodes = [helper.make_node("NonZero", ["x"], ["i"]), helper.make_node("Cast", ["i"], ["y"], to=1)]
    info = helper.make_tensor_value_info
    graph = helper.make_graph(nodes, "cut", [info("x", 1, [2, 2])], [info("y", 1, [2, None])])
    net = dgo.from_onnx(helper.make_model(graph)).compile()
    assert type(net) is not dgo.Net
    np.testing.assert_array_equal(net(np.eye(2, dtype=np.float32)), np.array([[0, 1], [0, 1]], np.float32))
    assert public(net) == set(NAMES[dgo.Net].split())
    assert public(net.graph) == set(NAMES[dgo.Graph].split())


# keywords of any name: names of a net's inputs, and options that their own type lists
BY_NAME = {"Net.benchmark", "Net.profile", "Net.submit", "Pool.submit", "Calibration.compile", "run"}
MODULES = ("", ".ops", ".nn", ".quantize", ".bench", ".torch", ".graph_api", ".onnxruntime")


def signatures(name, item):
    """(name, signature) of a function, or of a class and its public methods and properties."""
    members = {key: getattr(item, key) for key in public(item)} if inspect.isclass(item) else {}
    getters = {key: member.fget for key, member in members.items() if isinstance(member, property)}
    for label, member in {"": item, **members, **getters}.items():
        if member is item or (inspect.isroutine(member) and not inspect.isbuiltin(member)):
            yield f"{name}.{label}".rstrip("."), inspect.signature(member)


@pytest.mark.parametrize("name", MODULES)
def test_signatures_show_types_without_quotes(name):
    if name == ".torch":
        pytest.importorskip("torch", reason="needs the extra 'torch'")
    module, seen = import_module(f"dnnl_graph_ops{name}"), 0
    for label in module.__all__:
        item = getattr(module, label)
        if not callable(item) or (inspect.isclass(item) and issubclass(item, Exception | Enum)):
            continue
        for where, signature in signatures(label, item):
            types = [signature.return_annotation, *(one.annotation for one in signature.parameters.values())]
            assert not [text for text in types if isinstance(text, str) and repr(text) != text], where
            kinds = {one.kind for one in signature.parameters.values()}
            assert inspect.Parameter.VAR_KEYWORD not in kinds or where in BY_NAME, where
            seen += 1
    assert seen


def test_what_is_quoted_is_seen():
    def function(x: "int") -> None: ...

    ((_, signature),) = signatures("function", function)
    assert repr(signature.parameters["x"].annotation) == "'int'"
