"""Sliders on one cell: deadline, radius and number of devices; the picture and the answer follow.

The picture is an image widget, not captured output: a page built without a browser has nobody to answer a widget that
captures output, and may wait for it without end.
"""

import ipywidgets

from fedlib.papers.fcbafl import energy, pictures
from fedlib.report.show import png
from fedlib.wireless import Scenario


def explorer(deadline_s: float, radius_km: float, devices: int, capacitance: float, seed: int) -> ipywidgets.VBox:
    """The sliders at these values, above what `energy.one_round` says of such a cell."""
    deadline = ipywidgets.FloatSlider(deadline_s, min=20, max=60, step=1, description="deadline, s")
    radius = ipywidgets.FloatSlider(radius_km, min=0.05, max=3, step=0.05, description="radius, km")
    count = ipywidgets.IntSlider(devices, min=2, max=200, description="devices")
    answer, picture = ipywidgets.HTML(), ipywidgets.Image(format="png")

    def redraw(change: object = None) -> None:
        cell = Scenario(devices=count.value, deadline_s=deadline.value, radius_km=radius.value, capacitance=capacitance)
        frame, answer.value = energy.one_round(cell, seed)
        picture.value = png(pictures.bars(frame, f"{count.value} devices, {radius.value:g} km, {deadline.value:g} s"))

    for slider in (deadline, radius, count):
        slider.continuous_update = False
        slider.observe(redraw, "value")
    redraw()
    return ipywidgets.VBox([deadline, radius, count, answer, picture])
