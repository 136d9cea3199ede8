"""Real cores over real gates, in virtual time."""
