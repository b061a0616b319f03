"""Sliders above a sentence and a picture that change with them.

The picture is an image widget, not captured output: without a browser, a widget that captures output gets no answer and
may wait forever.
"""

from collections.abc import Callable

import ipywidgets
from matplotlib.figure import Figure

from fedlib.report.show import png


def explorer(draw: Callable[..., tuple[Figure | None, str]], **controls: ipywidgets.Widget) -> ipywidgets.VBox:
    """`draw` gets the controls' values by name, returns picture and sentence; without a picture the old one stays."""
    answer, picture = ipywidgets.HTML(), ipywidgets.Image(format="png")

    def redraw(change: object = None) -> None:
        fig, answer.value = draw(**{name: control.value for name, control in controls.items()})
        if fig is not None:
            picture.value = png(fig)

    for control in controls.values():
        control.continuous_update = False
        control.observe(redraw, "value")
    redraw()
    return ipywidgets.VBox([*controls.values(), answer, picture])
