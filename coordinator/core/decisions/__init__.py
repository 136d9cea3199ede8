"""The decisions on the local limits of this broker, each with the reason for it."""
