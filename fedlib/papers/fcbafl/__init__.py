"""The experiments of the FCBAFL paper: `learning` (Figs. 2 to 5), `energy` (Figs. 6 to 8), `audits`, drawings, sliders."""
