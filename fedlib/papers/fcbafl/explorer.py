"""Sliders on one cell: deadline, radius and number of devices; the picture and the answer follow."""

import ipywidgets
from matplotlib.figure import Figure

from fedlib.papers.fcbafl import energy, pictures
from fedlib.report import sliders
from fedlib.wireless import Scenario


def explorer(deadline_s: float, radius_km: float, devices: int, capacitance: float, seed: int) -> ipywidgets.VBox:
    """The sliders at these values, above what `energy.one_round` says of such a cell."""

    def draw(deadline_s: float, radius_km: float, devices: int) -> tuple[Figure, str]:
        cell = Scenario(devices=devices, deadline_s=deadline_s, radius_km=radius_km, capacitance=capacitance)
        frame, answer = energy.one_round(cell, seed)
        return pictures.bars(frame, f"{devices} devices, {radius_km:g} km, {deadline_s:g} s"), answer

    return sliders.explorer(
        draw,
        deadline_s=ipywidgets.FloatSlider(deadline_s, min=20, max=60, step=1, description="deadline, s"),
        radius_km=ipywidgets.FloatSlider(radius_km, min=0.05, max=3, step=0.05, description="radius, km"),
        devices=ipywidgets.IntSlider(devices, min=2, max=200, description="devices"),
    )
