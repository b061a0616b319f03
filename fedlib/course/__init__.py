"""The course on heterogeneity: six lessons whose exercises check themselves.

`python -m fedlib.course` builds the student and instructor versions of `notebooks/course` (`build`) and the package
that students get (`package`); `python -m fedlib.course ready` fetches data and compiles loops beforehand (`ready`);
`python -m fedlib.course grade FOLDER` runs the checks on what was handed in (`grade`, `handin`).

The notebooks import `lesson1` ... `lesson6`, folders of one shape: `problem` (what is computed), `pictures`, `checks`
(of the exercises). `exercise` is what a check is, `prediction` keeps what students expect, `start` and `toy` are shared
by several lessons.
"""
