# SPDX-License-Identifier: Apache-2.0
"""What Newton calls components since 1.6: the same classes by their other names."""

from .components.controllers.controller import Controller
from .components.controllers.neural import ControllerNeuralGRU, ControllerNeuralLSTM, ControllerNeuralMLP
from .components.controllers.pd import ControllerPD
from .components.controllers.pid import ControllerPID
from .components.limits.clamping import Clamping

ClampingBase = Clamping
DriveBase = Controller
DriveNeuralGRU = ControllerNeuralGRU
DriveNeuralLSTM = ControllerNeuralLSTM
DriveNeuralMLP = ControllerNeuralMLP
DrivePD = ControllerPD
DrivePID = ControllerPID
