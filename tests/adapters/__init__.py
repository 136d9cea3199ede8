"""What the adapters' own parts do, where no port promises it."""
