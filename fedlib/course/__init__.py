"""The course on heterogeneity: eight lessons whose exercises check themselves.

`python -m fedlib.course` builds the student and instructor versions of `notebooks/course` (`build`) and the package
that students get (`package`); `python -m fedlib.course ready` fetches data and compiles loops beforehand (`ready`);
`python -m fedlib.course grade FOLDER` runs the checks on what was handed in (`grade`, `handin`).

The notebooks import `lesson1` ... `lesson8`, folders of one shape: `problem` (what is computed), `pictures`, `checks`
(of the exercises). `exercise` is what a check is, `prediction` keeps what students expect, `start`, `toy` and `clock`
are worlds that several cells share: the first notebook's, three clients with two weights, devices that need time.
"""
