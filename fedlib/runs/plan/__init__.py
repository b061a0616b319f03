"""`fedlib plan`: what a report will cost before it is computed.

Notebooks are rehearsed to find their runs (`rehearsal`), kinds of runs are measured on this machine (`kinds`, `measure`), and
`command` adds it all up: core-hours, memory of a worker, size of the results, and the time that n workers need.
"""
