"""Who takes part in a round: the papers' ways of choosing clients, as functions of plain arrays."""
