"""From notebooks to HTML: what notebooks show, and how they become pages.

    show, drift, holdings, sliders  what notebooks call: figures with alt text and numbers, tables, verdicts, sliders
    prose                           sentences whose numbers come from the ledger
    settings, notebooks, usage      the Hydra config, the notebooks it asks for, and errors of the command line
    execute, produce                one notebook through papermill; a whole report
    html, maths                     an executed notebook as one page that opens from disk
    verdicts, comparisons, forest   how verdicts look and read, and the comparisons of a claim as a forest plot
    index, scatter                  the page of all papers: what was judged, and printed against measured
    provenance                      where a page comes from

Call `produce.build` for a report, `show.figure` and its neighbours in a notebook. Nothing is imported here: a kernel
needs only `show`, and an error on the command line only `usage`.
"""
