"""What the papers print (one YAML file each) and the experiments they describe (one module each)."""
