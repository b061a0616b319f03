"""The course on heterogeneity: six lessons whose exercises check themselves.

`python -m fedlib.course` builds the student and instructor versions of `notebooks/course` (`build`);
`python -m fedlib.course grade FOLDER` runs the checks on what was handed in (`grade`, `handin`).

Lessons import `lesson1` ... `lesson6`, with the functions that make their pictures and the checks of their exercises;
`exercise` is what a check is, `start` and `toy` are shared by several lessons.
"""
