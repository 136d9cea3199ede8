"""The gate in a process of its own, and what the coordinator has of it.

A message that passes must not wait for what the coordinator computes: the admin API, a round with
thousands of groups, a look at backlogs, a file that is written. Threads share one interpreter, so they
do not part the two; processes do. Limits go in and counts come out, and nothing else is shared::

    coordinator                                  gate
    GateProcess  -- told: limits, attachments -> Keeper -> Gate
    (handle.py)  -- asked: counts, figures ---->  (keeper.py)
                 <- answers; participants,
                    traffic that resumes ------

While nothing passes, the coordinator asks seldom, and the gate says when something does.

Both ends keep these rules:

- **In order.** What is told is in force before what comes after it is looked at. Nothing is confirmed
  for it: the next answer confirms all that was told before its question.
- **Nobody learns of a limit before it is in force.** A report, or a ledger, that says "I pass less from
  now on" lets another broker pass more. So whatever others learn waits for that confirmation
  (`TrafficGate.when_in_force`), and a strict limit is never exceeded because two processes are not at
  the same point.
- **One life.** A gate whose coordinator is gone ends at once. A coordinator whose gate is gone, or has
  not answered for `ANSWERS_WITHIN_S`, ends with exit code 1, and whoever supervises it starts both again.
- **A gate stands still with its coordinator.** A coordinator that is stopped (SIGSTOP, a frozen
  container) loses its ZooKeeper session, and others take its share over. A gate that went on would pass
  it a second time. The coordinator speaks twice a second at least. After `STANDS_STILL_S` without a
  word, or a third of the session if that is less, the gate's process waits for one, with everything that
  it holds.

Signals go to the coordinator: the gate's process ignores what a terminal or a supervisor sends to both.
"""
