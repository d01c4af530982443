# SPDX-License-Identifier: Apache-2.0
"""Simulations saved to a file go on bit for bit in another process; files that do not fit change nothing."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path

import mujoco
import numpy as np
import pytest

import actuon
from actuon import ArticulationActuators, MujocoSimulation, NewtonSimulation, lab
from actuon.sim.saving import checksum_of
from scripts import state_files
from scripts.state_files import NETWORKS
from tests.support import saved_runs
from tests.support.states import model_bytes

ROOT = Path(__file__).parents[2]
QUADRUPED, ARM = actuon.assets.quadruped_mjcf, actuon.assets.arm_mjcf
PD = actuon.PDControlConfig(60.0, 1.5)
LATE = actuon.ActuatorConfig(PD, [actuon.MaxEffortClampingConfig(15.0)], actuon.DelayConfig(3))
HIPS, CALVES = (tuple(f"{leg}_{part}_joint" for leg in ("FL", "FR", "RL", "RR")) for part in ("hip", "calf"))


def arrays_of(path):
    with np.load(path) as file:
        return {name: file[name] for name in file.files}


def assert_same_contents(found, expected):
    """Arrays of two files are the same, bit for bit."""
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        assert found[name].dtype == values.dtype, name
        assert found[name].tobytes() == values.tobytes(), name


def resumed(folder, cases):
    """Return the results of each case in the saving process, and in another one that loads all cases."""
    here = {case: saved_runs.save(folder, case) for case in cases}
    command = [sys.executable, "-m", "tests.support.saved_runs", folder, *here]
    done = subprocess.run(command, check=False, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    return {case: (found, folder, case) for case, found in here.items()}


@pytest.fixture(scope="module")
def in_mujoco(tmp_path_factory):
    return resumed(tmp_path_factory.mktemp("mujoco"), saved_runs.MUJOCO)


@pytest.fixture(scope="module")
def in_newton(tmp_path_factory):
    return resumed(tmp_path_factory.mktemp("newton"), saved_runs.NEWTON)


def assert_alike(here, folder, case):
    """All that was found in both processes is the same, and the robots moved."""
    with np.load(folder / f"{case}.found.npz") as there:
        assert set(there.files) == here.keys()
        for name, values in here.items():
            np.testing.assert_array_equal(there[name], values, err_msg=name)
    assert_same_contents(arrays_of(folder / f"{case}.again.npz"), arrays_of(folder / f"{case}.npz"))
    for before, after in (("saved", "later"), ("later", "last")):
        assert np.abs(here[f"{after}/engine"] - here[f"{before}/engine"]).max() > 1e-3


@pytest.mark.parametrize(("version", "engine"), [("version_1", "3.17.0")])
def test_files_of_users_are_read_in_the_version_of_mujoco_that_they_are_of(version, engine):
    folder = state_files.SIMULATIONS / version
    path, first = folder / "groups_on_robots.npz", state_files.STEPS_BEFORE
    with state_files.simulation() as simulation, np.load(folder / state_files.EXPECTED) as expected:
        attached = state_files.ATTACHED["groups_on_robots"](simulation)
        if mujoco.__version__ != engine:
            with pytest.raises(actuon.StateError, match=f"engine: saved with MuJoCo {engine}; here MuJoCo "):
                simulation.load(path)
            return
        simulation.load(path)
        efforts, positions = state_files.drive(attached, first, first + state_files.STEPS_AFTER)
        np.testing.assert_allclose(efforts, expected["efforts"], rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(positions, expected["positions"], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("case", saved_runs.MUJOCO)
def test_a_saved_simulation_goes_on_bit_for_bit_in_another_process(case, in_mujoco):
    assert_alike(*in_mujoco[case])


@pytest.mark.parametrize("case", saved_runs.NEWTON)
def test_so_does_one_in_newton(case, in_newton):
    assert_alike(*in_newton[case])


def attach(simulation, config=LATE, joints=HIPS, **options):
    """Put an actuator on joints of all robots."""
    path = ".*" + simulation.robots[0].path.rsplit("/", 1)[1]
    return ArticulationActuators.from_actuators(
        path, [(config, joint) for joint in joints], simulation=simulation, **options
    )


@pytest.fixture
def saved(tmp_path):
    """A file of three quadrupeds whose hips have actuators."""
    with MujocoSimulation(QUADRUPED, 3) as simulation:
        kept = attach(simulation)
        simulation.step(10)
        simulation.save(tmp_path / "run.npz")
        kept.close()
    return tmp_path / "run.npz"


def everything(simulation, path):
    """All that a simulation holds, as a file has it."""
    simulation.save(path)
    return arrays_of(path)


def assert_refused(simulation, path, match):
    """A file is refused, and nothing is changed."""
    other = path.with_name("everything.npz")
    before = everything(simulation, other)
    with pytest.raises(actuon.StateError, match=match) as caught:
        simulation.load(path)
    assert path.name in str(caught.value)
    assert len(str(caught.value)) < 1500
    assert_same_contents(everything(simulation, other), before)


def with_network(name):
    config = actuon.NeuralControlConfig(str(NETWORKS / f"{name}.safetensors"))
    return actuon.ActuatorConfig(config)


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: MujocoSimulation(QUADRUPED, 4), "environments: saved with 3; here 4"),
        (
            lambda: MujocoSimulation(ARM, 3),
            "robot 0: saved with '/World/envs/env_0/base' with the joints FL_hip.*; here '/World/envs/env_0/link0'",
        ),
        (lambda: NewtonSimulation(QUADRUPED, 3), "engine: saved with MuJoCo 3.*; here Newton 1.*, SolverMuJoCo"),
    ],
    ids=["environments", "robot", "engine"],
)
def test_the_file_of_another_simulation_is_refused(make, match, saved):
    with make() as simulation:
        kept = attach(simulation, joints=HIPS if "FL_hip_joint" in simulation.robots[0].dof_names else ["joint2"])
        with pytest.raises(actuon.StateError, match=match):
            simulation.load(saved)
        assert not simulation.is_running
        simulation.step(3)
        assert_refused(simulation, saved, match)
        assert not kept.is_closed


@pytest.mark.parametrize(
    ("attachments", "match"),
    [
        ([], "attachments: saved with 1; here 0"),
        ([{}, {"joints": CALVES}], "attachments: saved with 1; here 2"),
        ([{"joints": CALVES}], r"attachment 0: actuators\[0\]: saved with .* on FL_hip.*; here .* on FL_calf"),
        (
            [{"config": actuon.ActuatorConfig(PD, [], actuon.DelayConfig(3))}],
            "saved with Delay → ControllerPD → ClampingMaxEffort with explicit.*; here Delay → ControllerPD with",
        ),
        (
            [{"config": actuon.ActuatorConfig(PD, LATE.clamping, actuon.DelayConfig(4))}],
            r"attachment 0: actuators\[0\]: is the state of motors with Delay of 3 steps; this one has Delay of 4",
        ),
        (
            [{"config": actuon.ActuatorConfig(PD, LATE.clamping, LATE.delay, control_every=2)}],
            "here Delay → ControllerPD → ClampingMaxEffort, control every 2 steps with explicit efforts",
        ),
        ([{"effort_mode": "implicit"}], "with explicit efforts on .*; here .* with implicit efforts on"),
    ],
)
def test_the_file_of_other_actuators_is_refused(attachments, match, saved):
    with MujocoSimulation(QUADRUPED, 3) as simulation:
        kept = [attach(simulation, **options) for options in attachments]
        assert_refused(simulation, saved, match)
        assert all(not own.is_closed for own in kept)


@pytest.mark.parametrize(
    ("before", "now", "match"),
    [
        (with_network("mlp"), with_network("lstm"), "saved with ControllerNeuralMLP .*; here ControllerNeuralLSTM"),
        (
            with_network("gru"),
            actuon.ActuatorConfig(
                actuon.NeuralControlConfig(str(NETWORKS / "gru.safetensors"), pos_scale=1.1),
            ),
            "saved with ControllerNeuralGRU [0-9a-f]{8} with .*; here ControllerNeuralGRU [0-9a-f]{8} with",
        ),
        (
            actuon.ActuatorConfig(PD, effects=[actuon.FrictionEffectConfig(0.1, load_motor=0.1)]),
            actuon.ActuatorConfig(PD, effects=[actuon.FrictionEffectConfig(0.1)]),
            "1.load_motor' is unset in these actuators",
        ),
    ],
    ids=["network", "weights", "parameter"],
)
def test_what_only_values_tell_apart_is_refused(before, now, match, tmp_path):
    with MujocoSimulation(QUADRUPED) as simulation:
        kept = attach(simulation, before)
        simulation.step(2)
        simulation.save(tmp_path / "run.npz")
        kept.close()
        kept = attach(simulation, now)
        assert_refused(simulation, tmp_path / "run.npz", match)


def test_effort_modes_that_were_chosen_otherwise_are_refused(tmp_path):
    """At a longer time step, stiff joints are nearer to diverging."""
    stiff = actuon.ActuatorConfig(actuon.PDControlConfig(120.0, 2.0))
    for dt, mode in ((0.001, "explicit"), (0.008, "implicit")):
        with MujocoSimulation(QUADRUPED, dt=dt) as simulation:
            own = attach(simulation, stiff, effort_mode="auto")
            assert ("implicit" in own.mode_text) == (mode == "implicit")
            if mode == "explicit":
                simulation.save(tmp_path / "run.npz")
            else:
                match = "saved with ControllerPD with explicit efforts on .*; here .* with implicit efforts on"
                assert_refused(simulation, tmp_path / "run.npz", match)


def test_the_order_of_attaching_tells_actuators_apart(tmp_path):
    with MujocoSimulation(QUADRUPED) as simulation:
        kept = [attach(simulation, joints=joints) for joints in (HIPS, CALVES)]
        simulation.save(tmp_path / "run.npz")
        kept[0].close()
        kept[0] = attach(simulation)
        assert_refused(simulation, tmp_path / "run.npz", "attachment 0: .*saved with .* on FL_hip.*; here .* FL_calf")
        kept[1].close()
        kept[1] = attach(simulation, joints=CALVES)
        simulation.load(tmp_path / "run.npz")


def test_groups_are_told_apart_by_their_class(tmp_path):
    """The engine's own drive and a motor have the same chain here."""
    with MujocoSimulation(QUADRUPED) as simulation:
        robots = actuon.Articulation("base", simulation)
        given = {"joint_names_expr": list(HIPS), "stiffness": 20.0, "damping": 1.0, "effort_limit": 10.0}
        kept = lab.ActuatorGroups(robots, {"hips": lab.IdealPDActuatorCfg(**given)})
        simulation.save(tmp_path / "run.npz")
        kept.close()
        given["effort_limit_sim"] = given.pop("effort_limit")
        kept = lab.ActuatorGroups(robots, {"hips": lab.ImplicitActuatorCfg(**given)})
        match = "group 'hips': class: saved with IdealPDActuator; here ImplicitActuator"
        assert_refused(simulation, tmp_path / "run.npz", match)


@pytest.mark.parametrize(
    ("options", "match"),
    [({"dt": 0.001}, "time step: saved with 0.002 s; here 0.001 s"), ({"solver": "featherstone"}, "SolverFeatherst")],
)
def test_another_time_step_or_solver_of_newton_is_refused(options, match, tmp_path):
    with NewtonSimulation(actuon.assets.arm_usd) as simulation:
        simulation.save(tmp_path / "run.npz")
    with NewtonSimulation(actuon.assets.arm_usd, **options) as simulation:
        assert_refused(simulation, tmp_path / "run.npz", match)


def damages(contents):
    """Contents of a file that somebody changed, by what was done."""
    engine = contents["engine"]
    yield "nan in the state", contents | {"engine": np.where(np.arange(engine.shape[1]) == 2, np.nan, engine)}
    yield "a number of the model", contents | {"properties/model/body_mass": contents["properties/model/body_mass"] * 2}
    gains = [f"motors/0/parameters/actuators[0]/1.{name}" for name in ("kp", "kd")]
    yield "swapped gains", contents | dict(zip(gains, (contents[name] for name in reversed(gains)), strict=True))
    masses = [f"properties/model/body_{name}" for name in ("mass", "subtreemass")]
    yield "swapped masses", contents | dict(zip(masses, (contents[name] for name in reversed(masses)), strict=True))
    yield "another type", contents | {"time": contents["time"].astype(np.float32)}
    yield "another shape", contents | {"engine": engine[:, None]}
    yield "one too many", contents | {"properties/model/more": np.zeros(3)}
    for name in (
        "engine",
        "time",
        "properties/model/dof_armature",
        "motors/0/actuators[0]/0.past",
        "motors/0/feedforward",
    ):
        yield f"without {name}", {key: values for key, values in contents.items() if key != name}


def test_changed_contents_are_refused(saved):
    with MujocoSimulation(QUADRUPED, 3) as simulation:
        kept = attach(simulation)
        simulation.step(4)
        for what, contents in damages(arrays_of(saved)):
            np.savez(saved.with_name("damaged.npz"), **contents)
            match = r"damaged.npz' is damaged: its contents do not fit its checksum"
            assert_refused(simulation, saved.with_name("damaged.npz"), match), what
        simulation.load(saved)
        assert not kept.is_closed


def test_files_that_are_not_of_a_simulation_are_refused(saved):
    whole, contents = saved.read_bytes(), arrays_of(saved)
    other = saved.with_name("other.npz")
    with MujocoSimulation(QUADRUPED, 3) as simulation:
        kept = attach(simulation)
        simulation.step(4)
        for content in (b"", b"no archive", whole[:-1], whole[: len(whole) // 2], whole[5:]):
            other.write_bytes(content)
            assert_refused(simulation, other, "other.npz' cannot be read as a saved simulation")
        with pytest.raises(actuon.StateError, match="missing.npz' cannot be read as a saved simulation"):
            simulation.load(saved.with_name("missing.npz"))
        np.savez(other, **contents | {"__version__": np.array(5)})
        assert_refused(simulation, other, "got version 5; this Actuon reads version 1")
        kept.save_state(other)
        assert_refused(simulation, other, r"other.npz' is not a file of Simulation.save\(\)")
        with pytest.raises(actuon.StateError, match="run.npz' is not the state of an actuator"):
            kept.load_state(saved)


def test_files_with_changed_bytes_are_refused_or_the_same(saved):
    """Changes of what the archive says of itself, such as times, may leave all contents as they were."""
    whole, rng = saved.read_bytes(), np.random.default_rng(0)
    expected, other, refused = arrays_of(saved), saved.with_name("other.npz"), 0
    with MujocoSimulation(QUADRUPED, 3) as simulation:
        kept = attach(simulation)
        simulation.step(4)
        before = everything(simulation, other)
        for start in [0, len(whole) - 20_000] * 40:
            changed = bytearray(whole)
            for at in rng.integers(start, len(whole), size=rng.integers(1, 6)):
                changed[at] ^= 1 << int(rng.integers(8))
            other.write_bytes(changed)
            try:
                simulation.load(other)
            except actuon.StateError:
                refused += 1
                assert_same_contents(everything(simulation, other), before)
                continue
            assert_same_contents(everything(simulation, other), expected)
            before = expected
        assert refused > 40
        assert not kept.is_closed


def test_a_simulation_that_diverged_is_not_saved(tmp_path):
    with MujocoSimulation(QUADRUPED, 2) as simulation:
        kept = attach(simulation)
        simulation.step(2)
        simulation.data[1].qvel[7] = np.nan
        with pytest.raises(
            actuon.SimulationError, match="velocity of joint 'FL_thigh_joint' of '/World/envs/env_1/base'"
        ):
            simulation.save(tmp_path / "run.npz")
        simulation.reset([1])
        simulation.save(tmp_path / "run.npz")
        kept.set_dof_feedforward_effort_targets([[1.0], [2.0]], dof_indices=[0])
        state = kept.actuators[0].controller.kp
        state.fill_(np.nan)
        with pytest.raises(actuon.StateError, match="the simulation cannot be saved: attachment 0: .*kp"):
            simulation.save(tmp_path / "other.npz")
    assert not (tmp_path / "other.npz").exists()


def test_a_closed_simulation_is_neither_saved_nor_loaded(saved):
    with MujocoSimulation(QUADRUPED, 3) as simulation:
        pass
    for call in (simulation.save, simulation.load):
        with pytest.raises(actuon.SimulationError, match="closed"):
            call(saved)


def test_a_file_brings_back_what_was_changed_since(tmp_path):
    """In the simulation that was saved: properties of some environments, options, parameters and random streams."""
    with MujocoSimulation(QUADRUPED, 3) as simulation:
        robots = actuon.Articulation("base", simulation)
        cfg = lab.DelayedPDActuatorCfg(
            [".*"], stiffness=60.0, damping=1.5, min_delay=0, max_delay=3, seed=1, effort_limit=15.0
        )
        groups = lab.ActuatorGroups(robots, {"all": cfg})
        simulation.step(10)
        simulation.save(tmp_path / "run.npz")
        models, ends = model_bytes(simulation), []
        for _ in range(2):
            simulation.reset([1])  # which draws lags
            groups["all"].randomize("stiffness", lab.Uniform(0.8, 1.2))
            simulation.step(20)
            ends.append((simulation.save_state().engine, groups.telemetry().applied_effort))
            robots.set_dof_armatures(np.array([[0.01], [0.02], [0.03]]))
            robots.set_link_masses(robots.get_link_masses().numpy() * np.array([[1.0], [1.1], [1.2]]))
            simulation.models[2].opt.timestep = 0.001
            groups["all"].randomize("effort_limit", lab.Uniform(0.1, 0.2))
            simulation.step(20)
            assert simulation.dt == 0.001
            simulation.load(tmp_path / "run.npz")
        assert simulation.dt == 0.002
        assert model_bytes(simulation) == models
    for one, other in zip(*ends, strict=True):
        np.testing.assert_array_equal(one, other)


def test_limits_that_were_drawn_are_told_from_those_of_the_robot(tmp_path):
    """The robot's are -8 and 6 N·m; a limit that was drawn, of 8, holds in both directions."""
    path = tmp_path / "robot.xml"
    path.write_text("""<mujoco><worldbody><body name="base"><joint name="hinge" axis="0 1 0"/>
    <geom size="0.1" mass="5"/></body></worldbody><actuator>
    <position joint="hinge" kp="1" forcerange="-8 6"/></actuator>
    </mujoco>""")

    def make():
        simulation = MujocoSimulation(path)
        robots = actuon.Articulation("base", simulation)
        cfg = lab.IdealPDActuatorCfg(["hinge"], stiffness=1000.0, damping=0.0)
        robots.set_dof_position_targets(1.0)
        return simulation, lab.ActuatorGroups(robots, {"all": cfg})

    def effort(simulation, groups):
        simulation.step()
        return groups.telemetry().applied_effort.item()

    simulation, groups = make()
    with simulation:
        simulation.save(tmp_path / "first.npz")
        groups["all"].randomize("effort_limit", lab.Uniform(1.0, 1.0))
        assert effort(simulation, groups) == 8.0
        simulation.save(tmp_path / "drawn.npz")
        for name, expected in (("first", 6.0), ("drawn", 8.0)):
            simulation.load(tmp_path / f"{name}.npz")
            assert effort(simulation, groups) == expected
    simulation, groups = make()
    with simulation:
        for name, expected in (("drawn", 8.0), ("first", 6.0)):
            simulation.load(tmp_path / f"{name}.npz")
            assert effort(simulation, groups) == expected


def test_a_simulation_that_was_never_started_is_saved(tmp_path):
    """With what its start draws."""
    cfg = lab.DelayedPDActuatorCfg([".*"], stiffness=60.0, damping=1.5, min_delay=0, max_delay=9, seed=1)
    lags = []
    for call in ("save", "load"):
        with MujocoSimulation(QUADRUPED, 5) as simulation:
            groups = lab.ActuatorGroups(actuon.Articulation("base", simulation), {"all": cfg})
            if call == "load":
                groups["all"].reset()
            getattr(simulation, call)(tmp_path / "run.npz")
            simulation.step(3)
            simulation.reset([2])
            lags.append(np.array(groups["all"].time_lags.tolist()))
    assert len(set(lags[0])) > 1
    np.testing.assert_array_equal(*lags)


def test_a_stopped_simulation_is_started(saved):
    with MujocoSimulation(QUADRUPED, 3) as simulation:
        kept = attach(simulation)
        simulation.step(3)
        simulation.stop()
        simulation.load(saved)
        assert simulation.is_running
        assert simulation.time == pytest.approx(0.02)
        assert_same_contents(everything(simulation, saved.with_name("again.npz")), arrays_of(saved))
        assert not kept.is_closed


def test_an_mj_data_that_somebody_has_shows_what_was_loaded(saved):
    with MujocoSimulation(QUADRUPED, 3) as simulation:
        kept, data = attach(simulation), simulation.data[2]
        simulation.step(3)
        simulation.load(saved)
        assert data.time == pytest.approx(0.02)
        np.testing.assert_array_equal(data.qpos, simulation.save_state().engine[2, 1 : 1 + len(data.qpos)])
        assert not kept.is_closed


@pytest.mark.parametrize("engine", [MujocoSimulation, NewtonSimulation])
def test_implicit_actuators_that_are_stepped_by_hand_go_on(engine, tmp_path):
    """Their efforts are looked at again where a step of physics ends, but not where that of another run did."""
    motor = actuon.ActuatorConfig(
        actuon.PIDControlConfig(300.0, 2000.0, 6.0), [actuon.DCMotorClampingConfig(8.0, 4.0, 8.0)]
    )
    path = QUADRUPED if engine is MujocoSimulation else actuon.assets.quadruped_usd

    def make():
        simulation = engine(path, 2 if engine is MujocoSimulation else 1, dt=0.008)
        return simulation, attach(simulation, motor, auto_step_pre_physics=False, effort_mode="implicit")

    expected = []
    simulation, own = make()
    with simulation:
        start = own.articulation.get_dof_positions().numpy()
        for i in range(8):
            own.articulation.set_dof_position_targets(start + (-1) ** (i // 2) * 0.3)
            own.step_actuators(simulation.dt)
            simulation.step()
            simulation.save(tmp_path / f"{i}.npz")
            simulation.step()  # with the efforts of before
            expected.append(everything(simulation, tmp_path / "end.npz"))
    simulation, own = make()
    with simulation:
        for i, contents in enumerate(expected):
            simulation.load(tmp_path / f"{i}.npz")
            own.step_actuators(simulation.dt)
            simulation.load(tmp_path / f"{i}.npz")
            simulation.step()
            assert_same_contents(everything(simulation, tmp_path / "end.npz"), contents)


def test_a_motor_that_had_tripped_is_not_reported_again(tmp_path, caplog):
    config = actuon.ActuatorConfig(PD, [dataclasses.replace(saved_runs.HOT, trip_temperature=41.0)])

    def tripped():
        return sum("has tripped" in record.message for record in caplog.records)

    with MujocoSimulation(QUADRUPED) as simulation:
        own = attach(simulation, config)
        own.articulation.set_dof_position_targets(own.articulation.get_dof_positions().numpy() + 3.0)
        simulation.step(100)
        assert tripped()
        simulation.save(tmp_path / "run.npz")
    caplog.clear()
    with MujocoSimulation(QUADRUPED) as simulation:
        own = attach(simulation, config)
        simulation.load(tmp_path / "run.npz")
        assert np.nanmax(own.telemetry().signals["tripped"]) > 0.0
        simulation.step(20)
    assert not tripped()


CHANGED = {
    "joint_stiffness": "JOINT_DOF_PROPERTIES",
    "joint_rest_q": "JOINT_DOF_PROPERTIES",
    "joint_X_p": "JOINT_PROPERTIES",
    "joint_X_c": "JOINT_PROPERTIES",
    "shape_transform": "SHAPE_PROPERTIES",
    "shape_margin": "SHAPE_PROPERTIES",
    "shape_gap": "SHAPE_PROPERTIES",
    "shape_material_kh": "SHAPE_PROPERTIES",
}
"""Arrays of Newton's models that a user changes, and what the solver is told."""


def change_model(simulation):
    """Change what springs pull, and where joints and shapes are."""
    import newton

    model = simulation.model
    for name, flag in CHANGED.items():
        array = getattr(model, name)
        values = array.numpy().copy()
        values[..., :1] += 0.05 if values.ndim > 1 else 0.0
        values += {"joint_stiffness": 2.0, "joint_rest_q": 0.1}.get(name, 0.01 if values.ndim == 1 else 0.0)
        array.assign(values)
        simulation.solver.notify_model_changed(getattr(newton.ModelFlags, flag))


def test_newtons_springs_and_places_of_joints_are_saved(tmp_path):
    """A run goes on bit for bit in a simulation of the unchanged file."""
    pytest.importorskip("newton")
    moved = []
    with actuon.NewtonSimulation(actuon.assets.arm_mjcf) as simulation:
        change_model(simulation)
        changed = {name: getattr(simulation.model, name).numpy().copy() for name in CHANGED}
        simulation.step(3)
        simulation.save(tmp_path / "run.npz")
        simulation.step(10)
        moved.append(simulation.arrays.joint_q.numpy().copy())
    with actuon.NewtonSimulation(actuon.assets.arm_mjcf) as simulation:
        simulation.step(13)
        assert np.abs(simulation.arrays.joint_q.numpy() - moved[0]).max() > 1e-3
        simulation.load(tmp_path / "run.npz")
        for name, values in changed.items():
            np.testing.assert_array_equal(getattr(simulation.model, name).numpy(), values, err_msg=name)
        simulation.step(10)
        np.testing.assert_array_equal(simulation.arrays.joint_q.numpy(), moved[0])


def test_a_file_of_newton_without_an_array_is_refused(tmp_path):
    pytest.importorskip("newton")
    path = tmp_path / "run.npz"
    with actuon.NewtonSimulation(actuon.assets.arm_mjcf) as simulation:
        simulation.step(3)
        simulation.save(path)
        contents = {
            name: values
            for name, values in arrays_of(path).items()
            if name.removeprefix("properties/") not in CHANGED and name not in ("__checksum__", "__version__")
        }
        contents["__checksum__"] = checksum_of(contents)
        change_model(simulation)
        kept = simulation.model.joint_stiffness.numpy().copy()
        np.savez(path, **contents, __version__=np.array(1))
        with pytest.raises(actuon.StateError, match="properties/joint_X_c"):
            simulation.load(path)
        np.testing.assert_array_equal(simulation.model.joint_stiffness.numpy(), kept)
