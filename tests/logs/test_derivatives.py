# SPDX-License-Identifier: Apache-2.0
"""`Log.derivatives`: smooth positions, velocities and accelerations, compared with motions that are known."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import actuon
from actuon.logs import JointLog, Log


def log_of(time, *positions):
    return Log("run.csv", time, tuple(JointLog(f"j{i}", position) for i, position in enumerate(positions)))


@pytest.mark.parametrize("count", [3, 4, 5, 6, 101])
@pytest.mark.parametrize("width", [1e-6, 0.05, 1e9])
def test_parabolas_are_kept_up_to_the_ends(count, width):
    time = 5.0 + 0.01 * np.arange(count)
    t = time - 5.0
    q, qd, qdd = log_of(time, 1.0 + 2.0 * t - 3.0 * t**2, 0.0 * t).derivatives(width)
    np.testing.assert_allclose(q, np.stack([1.0 + 2.0 * t - 3.0 * t**2, 0.0 * t], axis=1), atol=1e-9)
    np.testing.assert_allclose(qd, np.stack([2.0 - 6.0 * t, 0.0 * t], axis=1), atol=1e-7)
    np.testing.assert_allclose(qdd, np.stack([np.full(count, -6.0), 0.0 * t], axis=1), atol=1e-5)


@pytest.mark.parametrize("jitter", [0.0, 0.002])
def test_a_sine_on_even_and_uneven_steps(jitter):
    rng = np.random.default_rng(3)
    time = 0.005 * np.arange(800) + rng.uniform(0.0, jitter, 800)
    speed = 2.0 * np.pi
    q, qd, qdd = log_of(time, np.sin(speed * time)).derivatives(0.06)
    assert q.shape == qd.shape == qdd.shape == (800, 1)
    inside = slice(12, -12)
    for found, exact, size in (
        (q, np.sin(speed * time), 1.0),
        (qd, speed * np.cos(speed * time), speed),
        (qdd, -(speed**2) * np.sin(speed * time), speed**2),
    ):
        assert np.abs(found[inside, 0] - exact[inside]).max() < 0.02 * size


def test_noise_falls_with_the_width():
    rng = np.random.default_rng(5)
    time = 0.01 * np.arange(2000)
    noisy = log_of(time, rng.normal(0.0, 1e-3, 2000))
    spread = [noisy.derivatives(width)[1].std() for width in (0.05, 0.2, 0.8)]
    assert spread[0] > 5.0 * spread[1] > 25.0 * spread[2]


def test_a_gap_is_a_straight_line():
    """And takes no more points than a few for each sample, however long it is."""
    time = np.concatenate([0.01 * np.arange(100), 1e6 + 0.01 * np.arange(100)])
    for found in log_of(time, 2.0 * time).derivatives(0.05):
        assert np.isfinite(found).all()
    time = np.concatenate([0.01 * np.arange(100), 2.0 + 0.01 * np.arange(100)])
    q, qd, qdd = log_of(time, 2.0 * time).derivatives(0.05)
    np.testing.assert_allclose(q[:, 0], 2.0 * time, atol=1e-9)
    np.testing.assert_allclose(qd, 2.0, atol=1e-6)
    np.testing.assert_allclose(qdd, 0.0, atol=1e-4)


def test_what_is_refused(monkeypatch):
    log = log_of(np.arange(2.0), np.zeros(2))
    with pytest.raises(actuon.LogError, match=r"has 2 samples; must have at least 3"):
        log.derivatives(0.1)
    for width in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(actuon.LogError, match=r"got a width of .*; must be greater than 0"):
            log.derivatives(width)
    monkeypatch.setitem(sys.modules, "scipy.signal", None)
    with pytest.raises(actuon.MissingExtraError, match=r"derivatives of logs needs 'scipy'.*actuon\[fit\]"):
        log_of(np.arange(3.0), np.zeros(3)).derivatives(0.1)
