"""Sliders on Proposition 4: T, M, L and the ratio of bandwidths; the picture and the answer follow."""

import ipywidgets

from fedlib.papers.fedgs import time_pictures
from fedlib.papers.fedgs.time_model import Setting
from fedlib.report import sliders


def explorer(s: Setting) -> ipywidgets.VBox:
    """The sliders at this setting."""
    seconds = {"min": 0, "max": 2, "step": 0.005, "readout_format": ".3f"}
    return sliders.explorer(
        lambda **values: time_pictures.at(Setting(**values)),
        iterations=ipywidgets.IntSlider(int(s.iterations), min=1, max=200, description="T"),
        factories=ipywidgets.IntSlider(int(s.factories), min=1, max=50, description="M"),
        selected=ipywidgets.IntSlider(int(s.selected), min=1, max=40, description="L"),
        ratio=ipywidgets.FloatLogSlider(s.ratio, min=0, max=2.4, step=0.05, description="ratio"),
        select_s=ipywidgets.FloatSlider(s.select_s, **seconds, description="select, s"),
    )
