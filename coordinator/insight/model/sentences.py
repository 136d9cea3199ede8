"""Explanations in words: one sentence for each cause of a limit."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from coordinator.core.allocation.splitting import Binding, Split
from coordinator.core.demand.observing import Excess
from coordinator.core.handling import hold_warning, refuses
from coordinator.core.lifecycle import Degradation
from coordinator.core.model import Dimension, MonitoringClass, Rate, ResourceGroup, Unit
from coordinator.core.rates import in_digits


def sentence_of(
    name: str,
    dimension: Dimension,
    split: Split | None,
    subject: str,
    local: Rate | None,
    binding: Binding,
    degradations: Sequence[Degradation],
) -> str:
    """Return the reason for a local limit as a sentence.

    Args:
        name: the group.
        dimension: the dimension.
        split: the law's answer that the limit was decided from; None where nothing is limited.
        subject: the broker that holds the limit.
        local: that limit with its fraction, per second.
        binding: the cause of the limit.
        degradations: those of this sidecar.
    """
    if split is None or local is None:
        return f"{name} does not limit {dimension.value}: {subject} lets everything through."
    match binding:
        case Binding.LEVEL:
            sentence = (
                f"{_cut(split, dimension.unit)} cut at "
                f"{_level(split)}{_by_weight(split, subject)}: {subject} gets {in_digits(local)}/s "
                f"of the {in_digits(split.exact_limit)}/s."
            )
        case Binding.DEMAND:
            sentence = (
                f"{subject} gets its demand and a part of the unused rest: {in_digits(local)}/s of the "
                f"{in_digits(split.exact_limit)}/s."
            )
        case Binding.RESERVE:
            sentence = _reserve_sentence(name, dimension, split, subject, local)
        case Binding.GATE:
            sentence = _gate_sentence(split, subject, local)
        case _:
            reasons = "; ".join(degradation.value for degradation in degradations)
            sentence = f"{subject} holds {in_digits(local)}/s: {reasons or 'it is not registered'}."
    return sentence


def observed_sentence(group: ResourceGroup, dimension: Dimension, excess: Excess) -> str:
    """Return that an observed group holds nothing back, and the amount that would have waited.

    Args:
        group: the group.
        dimension: one that it limits.
        excess: counted here of the dimension's class.
    """
    whose = f", on the traffic of {group.observes}" if group.observes else ""
    return (
        f"{group.name} is tried out{whose}: nothing is held back, "
        f"{excess.amounts[dimension.unit]:,} {dimension.unit.value} would have waited here so far."
    )


def handling_sentence(group: ResourceGroup, dimension: Dimension, refused: int) -> str:
    """Return the credit of a group, and its refusals; empty for one that has neither.

    Args:
        group: the group.
        dimension: one that it limits.
        refused: what was refused here since the start, in the dimension's unit.
    """
    told = []
    if group.burst_seconds:
        told.append(f"It may save up {group.burst_seconds:,} s of its limit and use that at once.")
    if refuses(group, dimension):
        told.append(
            f"Publishes that have waited for {group.hold_millis:,} ms fail: {refused:,} "
            f"{dimension.unit.value} did here so far."
        )
        if warning := hold_warning(group.hold_millis):
            told.append(f"{warning[0].upper()}{warning[1:]}.")
    return " ".join(told)


def _gate_sentence(split: Split, subject: str, local: Rate) -> str:
    held, target = split.held(), split.target_of(subject)
    if held + target - local > split.limit:
        return (
            f"{subject} is due {target:,}/s, but {held:,} of {in_digits(split.exact_limit)}/s are still "
            f"held: it stays at {in_digits(local)}/s until the others have lowered themselves."
        )
    return (
        f"{subject} is due {target:,}/s and waits for the acknowledgements of all others: "
        f"until then it stays at {in_digits(local)}/s."
    )


def _reserve_sentence(
    name: str, dimension: Dimension, split: Split, subject: str, local: Rate
) -> str:
    if subject in split.claims:
        return (
            f"{subject} has just started and does not know yet what the others use: it holds "
            f"its arrival reserve of {in_digits(local)}/s until every member has reported."
        )
    publish = dimension.monitoring_class is MonitoringClass.PUBLISH
    who = "producers" if publish else "consumers"
    return (
        f"{subject} has no {who} of {name}: it holds the arrival reserve of {in_digits(local)}/s, which "
        "serves the first one until the others have made room."
    )


def units_sentence(dimension: Dimension, split: Split, other: Split, used: int) -> str:
    """Return which of two units split together is used up, and the use of the other one.

    Args:
        dimension: the dimension of the question.
        split: its split.
        other: that of the other unit of its class.
        used: the rate admitted by all brokers together in the unit that does not bind, per second.
    """
    if split.binds is None:
        return ""
    binds, slack = split.binds.value, "bytes" if split.binds is Unit.MESSAGES else "messages"
    limit = (other if split.binds is dimension.unit else split).limit
    part = f"{100 * used // limit if limit else 0} % of {limit:,}/s used"
    return f"{binds.capitalize()} bind, {slack} do not ({part})."


def capped_sentence(capped: Collection[str]) -> str:
    """Return the brokers whose announced limits are capped; empty without any."""
    if not capped:
        return ""
    named = ", ".join(sorted(capped))
    return f"More than twice the target is announced by {named}, and counts as an equal part."


def _level(split: Split) -> str:
    if split.binds is None or split.water_level is None or not split.limit:
        return "the same level"
    share = 100 * split.water_level / split.limit
    return f"the same share of the limit that it uses most, {share:.1f} %"


def _by_weight(split: Split, subject: str) -> str:
    """Return the weight of a broker in words; empty when every weight is 1."""
    weights = {broker: claim.weight for broker, claim in split.claims.items()}
    whole = sum(weights.values())
    if whole == len(weights):
        return ""
    return f" per active topic, of which {subject} has {weights[subject]:,} of {whole:,}"


def _cut(split: Split, unit: Unit) -> str:
    cut = [
        broker
        for broker, claim in split.claims.items()
        if claim.wants is None or claim.wants > split.targets[broker]
    ]
    if len(cut) == 1:
        return f"{cut[0]} alone wants more {unit.value} than there are and is"
    return f"{len(cut)} brokers want more {unit.value} than there are, so each is"
