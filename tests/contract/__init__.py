"""One suite per port, run over every adapter: the memory form and the real one."""
