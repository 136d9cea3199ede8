"""Every scenario by name: S1 to S24 of the reference on peers and laws, and S25, WSO2's protocol."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from coordinator.simulation import demand_scenarios, failure_scenarios, fleet_scenarios
from coordinator.simulation.stage import Parameters, Stage


@dataclass(frozen=True, slots=True)
class Scenario:
    """A scenario: load and mishaps in simulated time, the same for every law and policy.

    Args:
        title: its subject, in a few words.
        build: makes the stage, with everything that will happen on it.
        brokers: their number, unless the caller chooses another.
        least_brokers: the smallest number with which it makes sense.
        settles: whether demand comes to rest, so that limits can settle.
    """

    title: str
    build: Callable[[Parameters], Stage]
    brokers: int = 5
    least_brokers: int = 2
    settles: bool = True

    @property
    def description(self) -> str:
        """One line: what happens."""
        text = (self.build.__doc__ or "").partition(": ")[2]
        return text[:1].upper() + text[1:]


SCENARIOS: Mapping[str, Scenario] = {
    "S1": Scenario("skewed start", demand_scenarios.skewed_start),
    "S2": Scenario("mixed demand", demand_scenarios.mixed_demand),
    "S3": Scenario("step change", demand_scenarios.step_change),
    "S4": Scenario("joiners", failure_scenarios.joiners),
    "S5": Scenario("graceful leave", failure_scenarios.graceful_leave),
    "S6": Scenario("crash of the busiest", failure_scenarios.crash_of_the_busiest),
    "S7": Scenario("dependencies lost", failure_scenarios.dependencies_lost),
    "S8": Scenario("skewed demand", demand_scenarios.skewed_demand, brokers=10),
    "S9": Scenario("on-off and rotating bursts", demand_scenarios.rotating_bursts, settles=False),
    "S10": Scenario("flash crowd", demand_scenarios.flash_crowd),
    "S11": Scenario("cold start of all", demand_scenarios.cold_start, least_brokers=1),
    "S12": Scenario("return from idle", demand_scenarios.return_from_idle),
    "S13": Scenario("limit change", failure_scenarios.limit_changes, least_brokers=1),
    "S14": Scenario("report loss", failure_scenarios.lost_reports),
    "S15": Scenario("late, double and old reports", failure_scenarios.late_reports),
    "S16": Scenario("mixed intervals and clocks", failure_scenarios.mixed_intervals),
    "S17": Scenario("partition", failure_scenarios.partition),
    "S18": Scenario("pause", failure_scenarios.pause),
    "S19": Scenario("rolling restart", failure_scenarios.rolling_restart),
    "S20": Scenario("scale", fleet_scenarios.scale, brokers=16),
    "S21": Scenario("soak with mishaps", fleet_scenarios.soak, settles=False),
    "S22": Scenario("hidden demand", demand_scenarios.hidden_demand),
    "S23": Scenario("mixed fleet", fleet_scenarios.mixed_fleet),
    "S24": Scenario("bad reporter", fleet_scenarios.bad_reporter),
    "S25": Scenario(
        "saturated for five minutes", demand_scenarios.saturated, least_brokers=1, settles=False
    ),
}
"""The table; a new scenario is a function and a row."""
