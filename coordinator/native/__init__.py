"""Enforcement by the broker's own limiters, steered; nothing stands in the data path.

*Publishing* is held by the limiter of resource groups, *dispatch* by the dispatch rates of topics.
Publish rates of topics pass evenly, but each write of one lets a second of it pass (docs/native.md).

Pulsar's brokers split a resource group's limit by the usage that each of them last reported::

    quota = conf * mine / total

Both come from a table that a broker fills from one topic alone, its own entry too. So a process that may
produce on that topic chooses every quota. The sidecar writes, in its broker's name and in true units,

    entry = limit in force * I          I: the interval of that topic, whole seconds

and keeps the group's record in Pulsar at ``kappa * C``. A saturated broker starts each interval with a
full bucket, so a quota q admits ``q * (1 + 1/I)`` per second; with ``kappa = I / (I + 1)`` it admits
its limit.

The quotas of one table never add up to more than the record. They add up to it exactly, so entries that
sum up to less than C would be scaled up: a *rest* in a name of its own keeps the difference. In true
units a rest that outlives its writers only leaves the sum as it was.

====================  ==============================================================================
entries               the formula, both ways
sets                  the groups that a namespace counts against, and one native group for each such set
parts                 local limits of groups -> parts of native groups, so that every limit holds
table                 every broker's table, and the writers of its rows
counting              the broker's counters, poll by poll
poll_pace             the time from one poll to the next
pacing                from polls to the even counts that the core expects
trim                  takes out what batches add, and makes up for what is lost as intervals end
turns                 whole numbers in turn, whose mean is a small limit
wholes                the limits of all brokers together, and the records that they need
early                 topics that a broker which starts loads before it knows their group
overflow              sees that more passes than the limiter would let
rest                  the difference to the record, so that no quota is scaled up
standing_in           the entries for brokers whose own sidecar does not write
group                 one native group at this broker, with its pace and its trim
owners                the names of what has a rate of its own in Pulsar
rate_policy           Pulsar's policies of rates, and their form in its admin REST
sent                  the rate at which each topic's consumers are sent messages
topic_rates           a local limit of dispatch -> rates of topics, in few writes
topic_policy          the bounds of one topic's rate: by its operator, and by other brokers' sidecars
dispatch              all dispatch limits at this broker: floors, topics, partitions
topic_limits          the limits of single topics as policies, and which to look at now
beyond, conditions    what no limiter of a broker holds, and what keeps the others from being exact
steering              entries and records as one state, told the time
actuator              the shell: topic, admin REST, counters; the gate's ports
upkeep                the shell of records and attachments
dispatching           the shell of dispatch: reads, keeps, writes and gives back rates
topic_limiting        the shell of single topics' limits
====================  ==============================================================================
"""
