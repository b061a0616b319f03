"""Sliders on Proposition 4: T, M, L and the ratio of bandwidths; the picture and the answer follow.

As in the FCBAFL notebook the picture is an image widget, so that a page built without a browser shows the static one.
"""

import ipywidgets

from fedlib.report.show import png
from fedlib.papers.fedgs import time_pictures
from fedlib.papers.fedgs.time_model import Setting


def explorer(s: Setting) -> ipywidgets.VBox:
    """The sliders at this setting."""
    seconds = {"min": 0, "max": 2, "step": 0.005, "readout_format": ".3f"}
    sliders = {
        "iterations": ipywidgets.IntSlider(int(s.iterations), min=1, max=200, description="T"),
        "factories": ipywidgets.IntSlider(int(s.factories), min=1, max=50, description="M"),
        "selected": ipywidgets.IntSlider(int(s.selected), min=1, max=40, description="L"),
        "ratio": ipywidgets.FloatLogSlider(s.ratio, min=0, max=2.4, step=0.05, description="ratio"),
        "select_s": ipywidgets.FloatSlider(s.select_s, **seconds, description="select, s"),
    }
    words, picture = ipywidgets.HTML(), ipywidgets.Image(format="png")

    def redraw(change: object = None) -> None:
        fig, words.value = time_pictures.at(Setting(**{name: slider.value for name, slider in sliders.items()}))
        picture.value = png(fig)

    for slider in sliders.values():
        slider.continuous_update = False
        slider.observe(redraw, "value")
    redraw()
    return ipywidgets.VBox([*sliders.values(), words, picture])
