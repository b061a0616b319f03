"""FedGS: the runs, pictures and audits of its notebooks."""
