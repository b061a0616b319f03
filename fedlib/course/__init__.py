"""The course on heterogeneity: exercises that check themselves, student and instructor versions, helpers of the lessons.

`exercise` is what lessons and students meet, `build` makes the versions and their pages, `grade` runs what was handed
in, `lesson1` ... `lesson6` belong to the notebooks of `notebooks/course`.
"""
