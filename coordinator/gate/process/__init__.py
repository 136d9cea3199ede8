"""The gate in a process of its own, and the coordinator's handle of it.

A message that passes must not wait for the coordinator's work: the admin API, a round with thousands of
groups, the reading of backlogs, the writing of a file. Threads share one interpreter, so they do not
separate the two; processes do. Limits go in and counts come out, and the two share nothing else::

    coordinator                                  gate
    GateProcess  -- told: limits, attachments -> GateServer -> Gate
    (handle.py)  -- asked: counts, figures ---->      (server.py)
                 <- answers; participants,
                    traffic that resumes ------

The methods that are told and asked are listed once (service.py), and have the types of the gate's own.

While no traffic passes, the coordinator collects seldom, and the gate tells it when traffic resumes.

Both ends keep these rules:

- **In order.** The gate applies what it is told before it reads the next message. It confirms nothing
  separately: the next answer confirms all that was told before its question.
- **Others learn of a limit only once it is in force.** A report, or an escrow record, that says "I
  pass less from now on" lets another broker pass more. So both wait for that confirmation
  (`TrafficGate.when_in_force`), and a strict limit is never exceeded because two processes are not at the
  same point.
- **One life.** A gate whose coordinator is gone ends at once. A coordinator whose gate is gone ends with
  exit code 1, and its supervisor starts both again. A gate is gone when its process has ended or gives no
  sign of life (liveness.py), or when the channel or what waits for it is full.
- **Slow is not gone.** A client may keep the gate busy, and to end it would cost all clients their
  connections. So a late answer is told, counted and waited for, however long it takes. What the gate
  enforces meanwhile needs no coordinator: limits stay, and the lease of leased ones ends by itself.
- **A gate stands still with its coordinator.** A coordinator that is stopped (SIGSTOP, a frozen
  container) loses its ZooKeeper session, and others take its share over. A gate that went on would pass
  that share a second time. The coordinator sends a message at least twice a second. After
  `STANDS_STILL_S` without one, or a third of the session if that is less, the gate's process stops with
  all that it holds until the next message.

Signals go to the coordinator: the gate's process ignores what a terminal or a supervisor sends to both.
"""
