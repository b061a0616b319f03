"""What a report will cost before it is computed, for `fedlib plan`.

    kinds     runs of a kind cost the same per round; `kind(run)` names it, `Cost.seconds(run)` is its projected time
    measure   `measured(runs, seconds)`: what each kind costs on this machine

`fedlib.commands` finds the runs of each notebook and adds up their costs.
"""
