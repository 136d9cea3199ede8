"""How the local limits of this broker are decided, each with the reason for it."""
