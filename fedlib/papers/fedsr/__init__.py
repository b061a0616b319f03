"""FedSR (Huang, Ye, Kang, 2024): the experiments, the drawings and the audits of its notebooks."""
