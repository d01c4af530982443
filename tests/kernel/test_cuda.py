# SPDX-License-Identifier: Apache-2.0
"""Kernels compile for CUDA, also on a machine without a GPU; with one, they run there."""

from __future__ import annotations

import dataclasses
import importlib
import math
from pathlib import Path

import numpy as np
import pytest
import warp as wp

import actuon
from actuon.kernel.build import kernel_for
from actuon.kernel.chain import IMPLICIT_SIGNALS, Chain, Law, Network, Stage, Write
from actuon.kernel.types import Flavour
from actuon.networks.activations import Activation
from actuon.networks.code import NetworkCode, state_rows
from actuon.networks.network import DenseShape, RecurrentShape, Structure as NetworkStructure
from tests.kernel.test_derivatives import CHAINS, stages_of
from tests.support.chains import Values, random_signals, rollout

SOURCES = Path(actuon.__file__).parent


def compile_for_cuda(module, directory):
    wp.init()
    try:
        return wp.compile_aot_module(module, arch=80, module_dir=directory)
    except RuntimeError as error:
        if "NVRTC" in str(error) or "CUDA" in str(error):
            pytest.skip(f"Warp was built without a CUDA compiler: {error}")
        raise


@pytest.mark.parametrize("flavour", [Flavour.SCALAR, Flavour.GRAD])
def test_fused_kernel_compiles(flavour, tmp_path):
    actuator = Values.random("pid-table_dc_max-late", 3, np.random.default_rng(0)).actuator()
    stages = tuple(component.stage() for component in actuator.stages)
    assert len(stages) == 5
    compile_for_cuda(kernel_for(Chain(stages, (Write("effort", may_add=True),), flavour)).function.module, tmp_path)
    assert list(tmp_path.glob("*.cubin")) or list(tmp_path.glob("*.ptx"))


@pytest.mark.parametrize("kind", ["mlp", "mlp without history", "lstm", "gru"])
@pytest.mark.parametrize("flavour", [Flavour.SCALAR, Flavour.GRAD])
def test_network_kernel_compiles(kind, flavour, tmp_path):
    input_idx = (0, 1) if kind == "mlp" else (0,)
    kind = kind.split()[0]
    first = 2 * len(input_idx) if kind == "mlp" else 5
    activations = [Activation("gelu"), Activation("clamp", -1.0, math.inf), Activation("relu")]
    dense = tuple(DenseShape(4, 4 if i else first, activation) for i, activation in enumerate(activations))
    dense += (DenseShape(1, 4, Activation("softplus", 2.0)), DenseShape(1, 1, Activation("clamp", -400.0, 390.0)))
    layers = NetworkStructure(kind, () if kind == "mlp" else (RecurrentShape(5, 2),), dense)
    histories = ("pos_history", "vel_history")
    code = NetworkCode(layers, input_idx, histories, True)
    rows = state_rows(layers, input_idx, histories)
    law = actuon.ControllerNeuralMLP.law
    network = Network(code, inputs=("{target_q} - {q}", "{qd}"), output="network_effort")
    stage = Stage("controller", (Law(law),), tables=("weights",), network=network)
    stage = dataclasses.replace(stage, wide_states=tuple(rows), wide_rows=tuple(rows.values()))
    structure = Chain((actuon.Delay(1, 2).stage(), stage), (Write("effort", may_add=True),), flavour)
    compile_for_cuda(kernel_for(structure).function.module, tmp_path)
    assert list(tmp_path.glob("*.cubin")) or list(tmp_path.glob("*.ptx"))


@pytest.mark.parametrize("name", CHAINS)
def test_derivatives_compile(name, tmp_path):
    stages = tuple(component.stage() for component in stages_of(name))
    writes = tuple(map(Write, ("effort", *IMPLICIT_SIGNALS)))
    compile_for_cuda(kernel_for(Chain(stages, writes, Flavour.SCALAR)).function.module, tmp_path)
    assert list(tmp_path.glob("*.cubin")) or list(tmp_path.glob("*.ptx"))


ONLY_CPU = {"sim.mujoco.loop", "sim.mujoco.callback"}
"""Modules that call MuJoCo's functions, which run on the CPU."""


def modules_with_kernels():
    """Names of all modules with kernels of their own, below `actuon`."""
    paths = (path for path in SOURCES.rglob("*.py") if "@wp.kernel" in path.read_text())
    return sorted({".".join(path.relative_to(SOURCES).with_suffix("").parts) for path in paths} - ONLY_CPU)


@pytest.mark.parametrize("module", modules_with_kernels())
def test_other_kernels_compile(module, tmp_path):
    if module.startswith(("sim.newton", "attach.newton")):
        pytest.importorskip("newton")
    compile_for_cuda(importlib.import_module(f"actuon.{module}"), tmp_path)
    assert list(tmp_path.glob("*.cubin")) or list(tmp_path.glob("*.ptx"))


@pytest.mark.skipif(not wp.is_cuda_available(), reason="no CUDA device")
@pytest.mark.parametrize("stepping", ["one", "two", "fresh"])
def test_gpu_equals_cpu(stepping, rng):
    values = Values.random("pid-table_dc_max-late", 3000, rng)
    steps = [random_signals(3000, rng) for _ in range(12)]
    masks = {t: rng.random(3000) < 0.3 for t in (4, 8)}
    expected = rollout(values.actuator(), steps, masks=masks)
    with wp.ScopedDevice("cuda:0"):
        efforts = rollout(values.actuator(), steps, masks=masks, stepping=stepping)
    np.testing.assert_allclose(efforts, expected, rtol=1e-4, atol=1e-4)
