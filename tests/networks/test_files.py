# SPDX-License-Identifier: Apache-2.0
"""Network files in every format: what they carry, and what is wrong with some."""

from __future__ import annotations

import json
import os
import pickle
import struct
import subprocess
import sys
import zipfile

import numpy as np
import pytest

import actuon
from actuon.networks.formats import safetensors as safetensors_files
from tests.support.chains import rollout
from tests.support.torch_networks import (
    GRU,
    LSTM,
    Feeder,
    assert_close,
    fed,
    mlp,
    signals,
)

torch = pytest.importorskip("torch")
pytest.importorskip("onnx")
pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")
nn = torch.nn
FORMATS = (".pt", ".pt2", ".onnx", ".safetensors")
N = 70


@pytest.mark.parametrize("kind", ["mlp", "lstm", "gru"])
def test_onnx_files_are_right_for_others_too(kind, tmp_path):
    """ONNX's own reference evaluator gives what the module gives."""
    from onnx.reference import ReferenceEvaluator

    module = {"mlp": mlp, "lstm": LSTM, "gru": GRU}[kind]().eval()
    path = tmp_path / "net.onnx"
    actuon.save_network(module, path)
    rng = np.random.default_rng(0)
    x = rng.standard_normal((4, 6 if kind == "mlp" else 2)).astype(np.float32)
    hidden, cell = (rng.standard_normal((1, 4, 8)).astype(np.float32) for _ in range(2))
    feeds = {"mlp": {}, "lstm": {"hidden_0": hidden, "cell_0": cell}, "gru": {"hidden_0": hidden}}[kind]
    (got, *_) = ReferenceEvaluator(str(path)).run(None, {"input": x, **feeds})
    with torch.no_grad():
        tensors = [torch.from_numpy(array) for array in feeds.values()]
        state = [tuple(tensors) if kind == "lstm" else tensors[0]] if tensors else []
        result = module(torch.from_numpy(x if kind == "mlp" else x[:, None]), *state)
    expected = (result if kind == "mlp" else result[0]).numpy()
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)


CONVENTION = {
    "input_order": "vel_pos",
    "input_idx": [0, 2, 5],
    "pos_scale": -2.0,
    "vel_scale": 0.1,
    "effort_scale": 3.0,
}


@pytest.mark.parametrize("suffix", FORMATS)
def test_a_file_carries_its_convention_and_arguments_win(suffix, tmp_path):
    module = mlp()
    path = tmp_path / f"net{suffix}"
    actuon.save_network(module, path, **CONVENTION, sample_dt=0.01, notes="trained by nobody")
    found = actuon.load_metadata(path)
    assert {key: found[key] for key in CONVENTION} == CONVENTION | {"input_idx": (0, 2, 5)}
    assert found["sample_dt"] == 0.01
    assert found["notes"] == "trained by nobody"
    steps = signals(N, 12)
    options = dict(input_idx=(0, 2, 5), order="vel_pos")
    controller = actuon.ControllerNeuralMLP(path)
    assert_close(
        rollout(actuon.Actuator(range(N), controller), steps),
        fed(Feeder(module, N, "mlp", scales=(-2.0, 0.1, 3.0), **options), steps),
    )
    controller = actuon.ControllerNeuralMLP(path, pos_scale=1.0, torque_scale=0.5)
    assert_close(
        rollout(actuon.Actuator(range(N), controller), steps),
        fed(Feeder(module, N, "mlp", scales=(1.0, 0.1, 0.5), **options), steps),
    )


@pytest.mark.parametrize("suffix", [".onnx", ".safetensors"])
def test_a_file_written_over_in_place_is_read_anew(suffix, tmp_path):
    """Size and time of the file, by which it could be taken for the one before, stay the same."""
    path = tmp_path / f"net{suffix}"
    steps = signals(3, 4)
    for module, scale in ((mlp(seed=0), 2.0), (mlp(seed=1), 3.0)):
        actuon.save_network(module, path, effort_scale=scale)
        os.utime(path, ns=(0, 0))
        assert actuon.load_metadata(path)["effort_scale"] == scale
        controller = actuon.ControllerNeuralMLP(path)
        expected = fed(Feeder(module, 3, "mlp", scales=(1.0, 1.0, scale), input_idx=(0, 1, 2)), steps)
        assert_close(rollout(actuon.Actuator(range(3), controller), steps), expected)


def test_changes_to_metadata_stay_with_the_caller(tmp_path):
    path = tmp_path / "net.safetensors"
    actuon.save_network(mlp(), path, notes={"by": ["nobody"]})
    actuon.load_metadata(path)["notes"]["by"].append("me")
    assert actuon.load_metadata(path)["notes"] == {"by": ["nobody"]}


def test_onnx_metadata_one_property_per_key(tmp_path):
    import onnx

    path = tmp_path / "net.onnx"
    actuon.save_network(mlp(inputs=4), path)
    model = onnx.load(str(path))
    del model.metadata_props[:]
    onnx.helper.set_model_props(model, {"model_type": "mlp", "input_idx": "[0, 1]", "torque_scale": "2.5"})
    onnx.save(model, str(path))
    assert actuon.load_metadata(path) == {"model_type": "mlp", "input_idx": (0, 1), "effort_scale": 2.5}


def with_metadata(path, entries, **beside):
    """Write other metadata into a network file: entries in one JSON text, and further text beside it."""
    import onnx

    texts = {"metadata": json.dumps(entries), **beside}
    if path.suffix == ".onnx":
        model = onnx.load(str(path))
        del model.metadata_props[:]
        onnx.helper.set_model_props(model, texts)
        onnx.save(model, str(path))
    elif path.suffix == ".safetensors":
        layout = actuon.load_metadata(path)["layout"]
        texts["metadata"] = json.dumps({"layout": layout} | entries)
        path.write_bytes(safetensors_files.tensor_content(safetensors_files.read_tensors(path), texts))
    else:
        with zipfile.ZipFile(path) as archive:
            contents = {name: archive.read(name) for name in archive.namelist()}
        with zipfile.ZipFile(path, "w") as archive:
            for name, content in contents.items():
                archive.writestr(name, texts["metadata"] if name.endswith("metadata.json") else content)


@pytest.mark.parametrize("kind", ["mlp", "lstm", "gru"])
@pytest.mark.parametrize("suffix", FORMATS)
def test_metadata_that_is_not_understood(kind, suffix, tmp_path):
    module = {"mlp": mlp, "lstm": LSTM, "gru": GRU}[kind]().eval()
    path = tmp_path / f"net{suffix}"
    actuon.save_network(module, path, notes={"epoch": 3}, author="we", license="MIT")
    assert actuon.load_metadata(path)["notes"] == {"epoch": 3}
    actuon.NeuralControlConfig(str(path)).build()
    with_metadata(path, {"model_type": kind, "pos_scales": [1.0]})
    match = "its metadata has the unknown entry 'pos_scales'.*entries: model_type.*Did you mean 'pos_scale'"
    for call in (actuon.load_metadata, lambda p: actuon.NeuralControlConfig(str(p)).build()):
        with pytest.raises(actuon.ParameterError, match=rf"net\{suffix}.*{match}"):
            call(path)
    with pytest.raises(actuon.ParameterError, match=f"save_network: {match}"):
        actuon.save_network(module, tmp_path / f"other{suffix}", pos_scales=[1.0])


@pytest.mark.parametrize("suffix", [".onnx", ".safetensors"])
def test_what_exporters_write_beside_metadata(suffix, tmp_path):
    path = tmp_path / f"net{suffix}"
    actuon.save_network(mlp(), path)
    with_metadata(path, {}, format="pt", model_author="we", **{"pkg.torch.onnx.version": "2", "onnx.infer": "x"})
    actuon.ControllerNeuralMLP(path)
    with_metadata(path, {}, pos_scale="2.0")
    with pytest.raises(actuon.ParameterError, match="has 'pos_scale' next to the JSON entry 'metadata'; move it"):
        actuon.ControllerNeuralMLP(path)


def test_metadata_where_older_exports_of_torch_put_it(tmp_path):
    path = tmp_path / "net.pt2"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("serialized_exported_program.json", "{}")
        archive.writestr("extra_files/metadata.json", '{"pos_scale": 2.0}')
    assert actuon.load_metadata(path) == {"pos_scale": 2.0}


def run_without_torch(code, *arguments):
    blocked = "import sys; sys.modules['torch'] = None\n"
    done = subprocess.run(
        [sys.executable, "-c", blocked + code, *map(str, arguments)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("suffix", [".onnx", ".safetensors"])
def test_no_torch_is_needed_to_run(suffix, tmp_path):
    path = tmp_path / f"net{suffix}"
    actuon.save_network(mlp(), path, input_idx=[0, 1, 2])
    code = """
import numpy as np, actuon
actuator = actuon.Actuator(range(5), actuon.ControllerNeuralMLP(sys.argv[1]))
state = actuator.state()
sim = {n: np.ones(5, np.float32) for n in ("joint_q", "joint_qd", "joint_target_q", "joint_target_qd", "joint_f")}
actuator.step(sim, sim, state, state)
print(actuon.load_metadata(sys.argv[1])["model_type"])
"""
    assert run_without_torch(code, path).split()[-1] == "mlp"


def test_without_torch_a_torch_file_names_the_extra(tmp_path):
    path = tmp_path / "net.pt"
    actuon.save_network(mlp(), path)
    code = """
import actuon
assert actuon.load_metadata(sys.argv[1])["model_type"] == "mlp"
try:
    actuon.ControllerNeuralMLP(sys.argv[1])
except actuon.MissingExtraError as error:
    print(error)
"""
    assert "actuon[torch]" in run_without_torch(code, path)


class Bomb:
    def __reduce__(self):
        return os.system, ("touch exploded",)


def test_pickled_checkpoints_are_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    files = {
        "state.pt": lambda p: torch.save({"w": Bomb()}, p),
        "plain.pt": lambda p: p.write_bytes(pickle.dumps(Bomb())),
    }
    for name, write in files.items():
        path = tmp_path / name
        write(path)
        for call in (actuon.ControllerNeuralMLP, actuon.load_metadata):
            with pytest.raises(actuon.ParameterError, match=f"{name}.*pickled checkpoint"):
                call(path)
    assert not (tmp_path / "exploded").exists()


@pytest.mark.parametrize("suffix", FORMATS)
def test_truncated_and_corrupt_files_are_named(suffix, tmp_path):
    good = tmp_path / f"good{suffix}"
    actuon.save_network(mlp(), good, input_idx=[0, 1, 2])
    content = good.read_bytes()
    bad = tmp_path / f"bad{suffix}"
    for keep in (0, 3, 7, 40, len(content) // 3, len(content) // 2, len(content) - 1):
        bad.write_bytes(content[:keep])
        with pytest.raises(actuon.ActuonError, match="bad"):
            actuon.ControllerNeuralMLP(bad)
    bad.write_bytes(b"not a network at all" * 50)
    with pytest.raises(actuon.ActuonError, match="bad"):
        actuon.load_metadata(bad)


def test_hostile_safetensors(tmp_path):
    path = tmp_path / "hostile.safetensors"

    def write(header, data=b"", length=None):
        text = header if isinstance(header, bytes) else json.dumps(header).encode()
        path.write_bytes(struct.pack("<Q", len(text) if length is None else length) + text + data)

    layout = {"metadata": json.dumps({"layout": {"kind": "mlp", "recurrent": 0, "activations": [["relu", 0.0]]}})}
    entry = {"dtype": "F32", "shape": [2**39], "data_offsets": [0, 4]}
    cases = [
        dict(header={}, length=2**60),
        dict(header=b"[" * 100_000),
        dict(header=[1, 2]),
        dict(header={"a": 3}),
        dict(header={"__metadata__": layout}),
        dict(header={"__metadata__": layout, "dense.0.weight": entry}, data=b"1234"),
        dict(header={"__metadata__": layout, "dense.0.weight": entry | {"shape": [1], "data_offsets": [0, 2**40]}}),
        dict(header={"__metadata__": layout, "dense.0.weight": entry | {"shape": [-1]}}),
        dict(header={"__metadata__": layout, "dense.0.weight": entry | {"dtype": "I64"}}),
        dict(header={"__metadata__": {"metadata": "{"}}),
        dict(header={"__metadata__": {"metadata": "[]"}}),
        dict(header={"__metadata__": {"metadata": '{"input_idx": "all"}'}}),
        dict(header={"__metadata__": {"metadata": '{"pos_scale": "NaN"}'}}),
        dict(header={}),
    ]
    for case in cases:
        write(**case)
        with pytest.raises(actuon.ActuonError, match="hostile"):
            actuon.ControllerNeuralMLP(path)


def test_a_key_of_metadata_that_is_not_text_is_refused(tmp_path):
    import onnx

    path = tmp_path / "damaged.onnx"
    actuon.save_network(mlp(), path)
    model = onnx.load(str(path))
    onnx.helper.set_model_props(model, {"note_of_people": "1"})
    path.write_bytes(model.SerializeToString().replace(b"note_of_people", b"\xff" * 14))
    with pytest.raises(actuon.ParameterError, match=r"damaged.onnx': .* key b'.*must be text in UTF-8"):
        actuon.load_metadata(path)


def test_hostile_onnx(tmp_path, monkeypatch):
    import onnx

    path = tmp_path / "hostile.onnx"
    actuon.save_network(mlp(), path)
    clean = onnx.load(str(path))

    def mutated(change, match="hostile"):
        model = onnx.ModelProto()
        model.CopyFrom(clean)
        change(model)
        path.write_bytes(model.SerializeToString())
        with pytest.raises(actuon.ActuonError, match=match):
            actuon.ControllerNeuralMLP(path)

    def external(model):
        tensor = model.graph.initializer[0]
        tensor.ClearField("raw_data")
        tensor.data_location = onnx.TensorProto.EXTERNAL
        entry = tensor.external_data.add()
        entry.key, entry.value = "location", "/etc/passwd"

    def external_shape(model):
        node = onnx.helper.make_node("ConstantOfShape", ["input"], ["unused"])
        node.attribute.append(onnx.helper.make_attribute("value", onnx.numpy_helper.from_array(np.ones(1, np.float32))))
        tensor = node.attribute[0].t
        tensor.ClearField("raw_data")
        tensor.data_location = onnx.TensorProto.EXTERNAL
        entry = tensor.external_data.add()
        entry.key, entry.value = "location", "ones.bin"
        model.graph.node.insert(0, node)

    mutated(external)
    (tmp_path / "ones.bin").write_bytes(np.ones(1, np.float32).tobytes())
    monkeypatch.chdir(tmp_path)
    mutated(external_shape, "hostile.onnx': tensor '' is in another file; save the network with its weights inside")
    mutated(lambda model: model.graph.initializer[0].dims.__setitem__(0, 2**50))
    mutated(lambda model: model.graph.initializer[0].dims.__setitem__(0, -4))
    mutated(lambda model: model.graph.initializer[0].__setattr__("raw_data", b"12"))
    mutated(lambda model: model.graph.node[1].__setattr__("op_type", "Conv"))
    mutated(lambda model: model.graph.ClearField("input"))


def test_weights_beside_an_onnx_file_are_refused_and_taken_once_inside(tmp_path):
    import onnx

    module, path = mlp(), tmp_path / "net.onnx"
    actuon.save_network(module, path)
    beside = {"save_as_external_data": True, "location": "weights.bin", "size_threshold": 0}
    onnx.save_model(onnx.load(str(path)), str(path), **beside)
    for call in (actuon.ControllerNeuralMLP, lambda path: actuon.NeuralControlConfig(str(path)).build()):
        with pytest.raises(actuon.ParameterError, match=r"net\.onnx': tensor '.*' is in another file; .*onnx\.save"):
            call(path)
    onnx.save(onnx.load(str(path)), str(path))
    steps = signals(5, 3)
    got = rollout(actuon.Actuator(range(5), actuon.ControllerNeuralMLP(path)), steps)
    assert_close(got, fed(Feeder(module, 5, "mlp", input_idx=(0, 1, 2)), steps))


@pytest.mark.parametrize("suffix", [".safetensors", ".onnx"])
def test_counts_that_json_writes_as_floats_are_exact(suffix, tmp_path):
    path = tmp_path / f"net{suffix}"
    module = GRU(layers=2).eval()
    actuon.save_network(module, path)
    with_metadata(path, {"num_layers": 2.0, "hidden_size": 8.0})
    assert actuon.ControllerNeuralGRU(path).state(1, "cpu").hidden.shape == (2, 1, 8)
    assert type(actuon.load_metadata(path)["num_layers"]) is int
    for count in (2.5, True, "2", 0.0, float("nan"), float("inf")):
        actuon.save_network(module, path)
        with_metadata(path, {"num_layers": count})
        with pytest.raises(actuon.ParameterError, match=r"num_layers: got .*; must be a whole number ≥ 1"):
            actuon.ControllerNeuralGRU(path)


def test_a_layout_with_parts_of_layers_is_refused(tmp_path):
    path = tmp_path / "net.safetensors"
    actuon.save_network(GRU(layers=2).eval(), path)
    layout = actuon.load_metadata(path)["layout"]
    with_metadata(path, {"layout": layout | {"recurrent": 2.0}})
    assert actuon.ControllerNeuralGRU(path).state(1, "cpu").hidden.shape == (2, 1, 8)
    with_metadata(path, {"layout": layout | {"recurrent": 2.7}})
    with pytest.raises(actuon.ParameterError, match=r"net\.safetensors': layout\.recurrent: got 2\.7; must be a whole"):
        actuon.ControllerNeuralGRU(path)


def test_weights_that_are_not_finite(tmp_path):
    module = mlp()
    with torch.no_grad():
        module[0].weight[0, 0] = float("nan")
    for suffix in FORMATS:
        path = tmp_path / f"net{suffix}"
        with pytest.raises(actuon.ParameterError, match="NaN"):
            actuon.save_network(module, path)


@pytest.mark.parametrize(
    ("entry", "match"),
    [
        ({"effort_scale": 0}, "effort_scale: got 0; must be a number with a magnitude"),
        ({"torque_scale": 0.0}, "effort_scale: got 0.0; must be a number with a magnitude"),
        ({"pos_scale": 0.0}, "pos_scale: got 0.0"),
        ({"vel_scale": float("nan")}, "vel_scale: got nan"),
        ({"vel_scale": 1e300}, "vel_scale: got 1e.300"),
        ({"input_idx": [0, [1, 2]]}, r"input_idx: got \[0, \[1, 2\]\]; must be a list of history steps"),
        ({"input_idx": [[0], [1, 2]]}, "input_idx: got"),
        ({"input_idx": {"a": 1}}, "input_idx: got"),
        ({"effort_scale": 1.0, "torque_scale": 2.0}, "effort_scale and torque_scale, which mean the same"),
    ],
)
@pytest.mark.parametrize("suffix", [".safetensors", ".onnx"])
def test_bad_metadata(entry, match, suffix, tmp_path):
    path = tmp_path / f"bad{suffix}"
    actuon.save_network(mlp(), path)
    with_metadata(path, entry)
    for call in (actuon.load_metadata, actuon.ControllerNeuralMLP, lambda p: actuon.NeuralControlConfig(p).build()):
        with pytest.raises(actuon.ParameterError, match=rf"bad\{suffix}.*{match}"):
            call(str(path))
    key = next(iter(entry))
    with pytest.raises(actuon.ParameterError, match=f"save_network: .*{match}"):
        actuon.save_network(mlp(), tmp_path / f"new{suffix}", **entry)
    assert not (tmp_path / f"new{suffix}").exists(), key


@pytest.mark.parametrize("suffix", FORMATS)
def test_weights_of_64_bits_that_32_bits_do_not_hold(suffix, tmp_path):
    path = tmp_path / f"net{suffix}"
    for at, value in ((0, 1e200), (4, -1e39), (4, 1e308)):
        module = mlp().double()
        with torch.no_grad():
            module[at].weight[0, 0] = value
        with pytest.raises(actuon.ParameterError, match=rf"dense.{at // 2}.weight has the magnitude .* 32 bits"):
            actuon.save_network(module, path)
    script = torch.jit.script(module)
    torch.jit.save(script, str(tmp_path / "other.pt"))
    with pytest.raises(actuon.ParameterError, match=r"other\.pt.*dense.2.weight has the magnitude"):
        actuon.ControllerNeuralMLP(tmp_path / "other.pt")


def test_scales_inside_the_module_that_overflow(tmp_path):
    """Each number fits in 32 bits, their products do not."""

    class Large(nn.Module):
        def __init__(self, into: float, out: float):
            super().__init__()
            self.body = nn.Linear(2, 1)
            self.into, self.out = into, out

        def forward(self, x):
            return self.out * self.body(self.into * x)

    for scales in ((1e30, 1e30), (1e-30, 1e-30)):
        with pytest.raises(actuon.ParameterError, match="dense.0.weight has the magnitude .* 32 bits"):
            actuon.save_network(Large(*scales), tmp_path / "net.onnx", input_idx=[0])


def test_recurrent_biases_whose_sum_overflows(tmp_path):
    module = LSTM(hidden=1)
    with torch.no_grad():
        module.rnn.bias_ih_l0[0] = module.rnn.bias_hh_l0[0] = 3e38
    with pytest.raises(actuon.ParameterError, match=r"recurrent.0.bias_ih \+ bias_hh has the magnitude 6e\+38"):
        actuon.save_network(module.eval(), tmp_path / "net.safetensors")


@pytest.mark.parametrize("suffix", FORMATS)
def test_paths_that_cannot_be_written(suffix, tmp_path):
    folder = tmp_path / f"folder{suffix}"
    folder.mkdir()
    (tmp_path / "file").write_text("")
    for path, match in (
        (folder, "cannot be written: it is a folder; name a file"),
        (tmp_path / "nowhere" / f"net{suffix}", "the folder .*nowhere' does not exist; name a file"),
        (tmp_path / "file" / f"net{suffix}", "the folder .*file' does not exist"),
        (
            tmp_path / f"{'n' * 300}{suffix}",
            "cannot be written: File name too long; name a file in a",
        ),
        (f"{tmp_path}/n\0{suffix}", "cannot be written"),
    ):
        with pytest.raises(actuon.ParameterError, match=match):
            actuon.save_network(mlp(), path)
    with pytest.raises(actuon.ParameterError, match="is a folder"):
        actuon.ControllerNeuralMLP(folder)
    with pytest.raises(actuon.ParameterError, match="does not exist"):
        actuon.ControllerNeuralMLP(tmp_path / f"{'n' * 300}{suffix}")


@pytest.mark.skipif(os.geteuid() == 0, reason="may read and write everything")
def test_files_without_permission(tmp_path):
    path = tmp_path / "net.safetensors"
    actuon.save_network(mlp(), path)
    path.chmod(0)
    with pytest.raises(actuon.ParameterError, match="cannot be written: Permission denied"):
        actuon.save_network(mlp(), path)
    for call in (actuon.load_metadata, actuon.ControllerNeuralMLP):
        with pytest.raises(actuon.ParameterError, match="cannot be read: Permission denied"):
            call(path)


def test_bad_paths(tmp_path):
    for path in (None, 3):
        with pytest.raises(actuon.ParameterError, match="must be a path"):
            actuon.load_metadata(path)
        with pytest.raises(actuon.ParameterError, match="must be a path"):
            actuon.save_network(mlp(), path)
    with pytest.raises(actuon.ParameterError, match=r"got a dict; must be a torch.nn.Module"):
        actuon.save_network({}, tmp_path / "net.pt")
    with pytest.raises(actuon.ParameterError, match="does not exist"):
        actuon.ControllerNeuralMLP(tmp_path / "nothing.onnx")
    with pytest.raises(actuon.ParameterError, match=r"must be one of \.pt, \.pt2"):
        actuon.load_metadata(tmp_path / "net.h5")
    with pytest.raises(actuon.ParameterError, match=r"format '\.h5'"):
        actuon.save_network(mlp(), tmp_path / "net.h5")
    with pytest.raises(actuon.ParameterError, match="unknown parameter 'gain'"):
        actuon.ControllerNeuralMLP.resolve_arguments({"model_path": "a.onnx", "gain": 1.0})
    with pytest.raises(actuon.ParameterError, match="needs 'model_path'"):
        actuon.ControllerNeuralMLP.resolve_arguments({})


def test_metadata_is_read_from_the_archive_alone(tmp_path):
    """The rest of the archive need not be a network."""
    path = tmp_path / "net.pt"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("net/code/__torch__.py", "")
        archive.writestr("net/extra/metadata.json", json.dumps({"model_type": "gru", "torque_scale": 4}))
    assert actuon.load_metadata(path) == {"model_type": "gru", "effort_scale": 4.0}


def test_exported_for_one_batch_size(tmp_path):
    module = mlp()
    path = tmp_path / "extra_net.pt2"
    torch.export.save(torch.export.export(module, (torch.zeros(1, 6),)), str(path))
    actuator = actuon.Actuator(range(N), actuon.ControllerNeuralMLP(path))
    assert actuator.is_fused()
    steps = signals(N, 10)
    assert_close(rollout(actuator, steps), fed(Feeder(module, N, "mlp"), steps))


def test_limits_of_size(tmp_path):
    without_inputs = nn.Linear(1, 1)
    without_inputs.weight = nn.Parameter(torch.zeros(1, 0))
    for module, match in (
        (mlp(inputs=2, width=9000, layers=1), "9001 units; must have 1 to 8192"),
        (nn.Sequential(without_inputs), "0 inputs and 1 units; must have 1 to 8192"),
        (mlp(inputs=2, width=2, layers=16), "17 layers; must have at most 16"),
        (GRU(layers=16, hidden=1).eval(), "17 layers; must have at most 16"),
    ):
        with pytest.raises(actuon.ParameterError, match=match):
            actuon.save_network(module, tmp_path / "large.safetensors")
    path = tmp_path / "net.safetensors"
    actuon.save_network(mlp(inputs=4), path)
    with pytest.raises(actuon.ParameterError, match=r"input_idx: got \[0, 1001\]; .* from 0 \(now\) to 1000"):
        actuon.ControllerNeuralMLP(path, input_idx=[0, 1001])


def test_saving_leaves_the_module_alone_and_checks_the_convention(tmp_path):
    module = mlp().train()
    actuon.save_network(module, tmp_path / "net.safetensors", input_idx=np.array([0, 1, 2]))
    assert module.training
    for options, match in (
        ({"input_idx": [0, 1]}, "got 2 steps; the module has 6 inputs"),
        ({"model_type": "lstm"}, "the module is of type 'mlp'"),
        ({"effort_scale": 1.0, "torque_scale": 2.0}, "mean the same"),
        ({"notes": np.int64(3)}, "JSON"),
    ):
        with pytest.raises(actuon.ParameterError, match=match):
            actuon.save_network(module, tmp_path / "other.onnx", **options)
    assert not (tmp_path / "other.onnx").exists()


@pytest.mark.parametrize("suffix", FORMATS)
@pytest.mark.filterwarnings("ignore")
def test_flipped_bytes_give_named_errors(suffix, tmp_path):
    good = tmp_path / f"good{suffix}"
    actuon.save_network(mlp(width=4), good, input_idx=[0, 1, 2])
    content = np.frombuffer(good.read_bytes(), np.uint8)
    bad = tmp_path / f"bad{suffix}"
    rng = np.random.default_rng(8)
    for _ in range(40):
        changed = content.copy()
        at = rng.integers(0, len(content), 6)
        changed[at] = rng.integers(0, 256, 6)
        bad.write_bytes(changed.tobytes())
        try:
            actuon.ControllerNeuralMLP(bad)
        except actuon.ActuonError as error:
            assert "bad" in str(error)  # noqa: PT017 (a flipped weight is still a network)


def test_the_range_of_a_training_is_kept_and_checked(tmp_path):
    path = tmp_path / "net.safetensors"
    actuon.save_network(mlp(), path, input_range={"position_error": [-0.5, 0.5], "velocity": [0, 3]})
    assert actuon.load_metadata(path)["input_range"] == {"position_error": (-0.5, 0.5), "velocity": (0.0, 3.0)}
    for bad in ([1.0, 2.0], {"velocity": [2.0, 1.0]}, {"velocity": [0.0]}, {"velocity": [0.0, float("nan")]}):
        with pytest.raises(actuon.ParameterError, match="save_network: input_range.*: got .*; must be"):
            actuon.save_network(mlp(), path, input_range=bad)
