"""PyTorch's own tests that fail with this package's backend and pass with aot_eager, with the reason of each."""

_ROUNDING = "8.8e-4 from float64 in results of 1410, as eager, which is 8.7e-4 off"
KNOWN = {
    "CpuTests::test_cat_extern_kernel_cpu": _ROUNDING,
    "DynamicShapesCpuTests::test_cat_extern_kernel_dynamic_shapes_cpu": _ROUNDING,
    "MiscTests::test_backward_deterministic_mode_mismatch_warning": "eager autograd runs the backward pass in any mode",
    "MiscTests::test_debugmode_warns_outside_ci": "two warnings of a custom op whose results alias, in place of one",
    "NNModuleTests::test_conv_transpose_call_forward_directly": "asks for 1e-8 near 0; both are as near to float64",
    "ReproTests::test_optim_state_references_cleared": "a net keeps the tensors that it was built for",
    "ReproTests::test_sort_out": "results are in memory of this package, which PyTorch cannot resize",
}
