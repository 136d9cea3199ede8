"""The pure core: it takes events with their time and returns instructions.

A round passes through its packages: ``usage`` (the reports of all brokers), ``demand`` (the traffic of
this broker and the demand estimated from it), ``allocation`` (the target of each broker), ``transfer`` or
``escrow`` (how a target becomes the limit in force), ``certificate`` (the most that all limits can add up
to) and ``reports`` (what this broker tells the others). ``state`` is the state machine that joins them.

No module of this package does IO, reads a clock, draws random numbers or writes a log; import-linter
enforces it.
"""
