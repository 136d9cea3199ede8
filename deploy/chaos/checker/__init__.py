"""Verifies the history of a run under mishaps, knowing nothing of how the sidecars work.

A checker that uses the code it checks repeats its mistakes. So nothing here is imported
from the coordinator: rules are stated in terms of what clients, brokers and the system saw, and each
is proven able to fail by histories with a planted fault.

- `history`: what a run leaves behind.
- `counted`: what brokers counted, as curves.
- `recovery_window`: when a mishap is over, and until when it excuses anything.
- `messages`: nothing acknowledged is lost, doubled by us or reordered.
- `bounds`: the limit holds in every window, local limits within the certificate at every moment.
- `recovery`: every mishap is over when it must be, and afterwards all is as if there had been none.
- `standstills`: when no process on the machine had a turn.
- `footprint`: memory, descriptors and threads stay flat.
- `verdict`: all of them together.
"""
