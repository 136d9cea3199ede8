"""The tables and charts of the documentation, each made from what the step before wrote.

1. ``runs`` simulates with fixed seeds and writes ``docs/figures/data/*.json``: ``make figures``;
2. cog puts the tables of ``tables`` into the pages, between the marks that are there for it: also there,
   and ``make check`` looks whether a page shows what its data hold;
3. ``charts`` draws ``docs/figures/*.svg`` for a light and for a dark page whenever the site is built:
   ``make docs``. They are not kept.
"""
