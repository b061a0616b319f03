"""Experiments, pictures and audits of the FedACS notebooks."""
