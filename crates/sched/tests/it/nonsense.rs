//! Does everything answer, and nothing panic or run on, whatever the times are?

use memtint_sched::{
    Effort, Policy, Preemption, Priorities, Scaled, Supply, TIME_MAX, TaskIndex, TaskSet, TaskSpec, Verdict,
    edf_density, edf_scaling, fixed_priority_scaling, hyperbolic, judge, liu_layland, processor_demand,
    smallest_budget, worst_response, worst_response_edf,
};
use memtint_units::Picoseconds as Ps;
use memtint_units::Random;

/// A time of any magnitude, often the largest or the least.
fn time(random: &mut Random, least: u64) -> Ps {
    match random.within(0, 5) {
        0 => Ps(least),
        1 => TIME_MAX,
        2 => Ps(TIME_MAX.0 - 1),
        _ => Ps((random.bits() >> random.within(4, 63)).clamp(least, TIME_MAX.0)),
    }
}

#[test]
fn any_times_get_an_answer() {
    let effort = Effort { steps_max: 300 };
    let mut random = Random::new(61);
    let (mut yes, mut no, mut unknown) = (0, 0, 0);
    for round in 0..1000 {
        let count = random.within(1, 5);
        let specs = (0..count).map(|index| {
            let (period, wcet) = (time(&mut random, 1), time(&mut random, 1));
            let wcet = if round % 2 == 0 { wcet } else { Ps(wcet.0.min(period.0 / count).max(1)) };
            let spec = TaskSpec::new(format!("t{index}"), period, wcet).deadline(time(&mut random, 1));
            let spec = if round % 3 == 0 { spec.jitter(time(&mut random, 0)) } else { spec };
            let spec = if round % 5 == 0 { spec.blocking(time(&mut random, 0)) } else { spec };
            if round % 7 == 0 { spec.phase(time(&mut random, 0)) } else { spec }
        });
        let set = TaskSet::new(specs.collect::<Vec<_>>()).unwrap();
        let order = Priorities::deadline_monotonic(&set);
        let fixed = |preemption| Policy::FixedPriority(order.clone(), preemption);
        for policy in [Policy::Edf, Policy::NonPreemptiveEdf, fixed(Preemption::Full), fixed(Preemption::None)] {
            match judge(&set, &policy, effort, 50) {
                Verdict::Schedulable(_) => yes += 1,
                Verdict::Unschedulable(late) => {
                    no += 1;
                    assert!(late.demand_ps > late.window_ps, "round {round}: {late:?} {set:?}");
                }
                Verdict::Unsupported(_) => unknown += 1,
            }
            for supply in [Supply::Exact, Supply::Linear] {
                let _ = smallest_budget(&set, &policy, time(&mut random, 1), supply, effort);
            }
        }
        for preemption in [Preemption::Full, Preemption::None] {
            let _ = worst_response(&set, &order, preemption, TaskIndex(0), effort);
        }
        let _ = (processor_demand(&set, effort), worst_response_edf(&set, TaskIndex(0), effort));
        let _ = (liu_layland(&set), hyperbolic(&set), edf_density(&set));
        for scaled in [Scaled::All, Scaled::One(TaskIndex(0))] {
            let _ = (edf_scaling(&set, scaled, effort), fixed_priority_scaling(&set, &order, scaled, effort));
        }
    }
    assert!(yes > 30 && no > 300 && unknown > 30, "{yes} yes, {no} no, {unknown} unknown");
}
