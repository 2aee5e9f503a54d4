//! Does each defect of the release occur in the model of the release, and not where it is mended, nor in ours as far as ours has what
//! the defect is about?

use std::collections::BTreeSet;

use memtint_guard::released::{By, Complaint, Defect, Exclusive, Kernel, Released, Settings};
use memtint_guard::{Action, Config, Event, Ewma, Group, Kind, Reservation, Sharing, ThrottleReason, bandwidth};
use memtint_units::Picoseconds;

use crate::system::System;

fn release(limits: &[u64], exclusive: Exclusive) -> Settings {
    let (limits, none) = (limits.to_vec(), BTreeSet::new());
    Settings { limits, exempt: none.clone(), offline: none, reclaim: true, least_reclaim: 1, exclusive }
}

/// The same budgets, soft, in ours.
fn ours(limits: &[u64], sharing: Sharing) -> System<Ewma> {
    let group = |(core, &budget): (usize, &u64)| Group {
        cores: vec![core],
        reservation: Reservation { budget: budget as u32, kind: Kind::Soft },
        quantum: 1,
        skid: 0,
    };
    let groups = limits.iter().enumerate().map(group).collect();
    let config = Config { cores: limits.len(), groups, guaranteed: 10_000, reclaim_step: 1, sharing };
    System::new(config, |_| Ewma::new(1))
}

fn use_up_to(release: &mut Released, core: usize, most: u32) -> u32 {
    use_by(release, core, most, By::Task)
}

fn use_by(release: &mut Released, core: usize, most: u32, by: By) -> u32 {
    (0..most).take_while(|_| release.access(core, by)).count() as u32
}

/// The release with all defects; and with one of them mended.
fn with_and_without(settings: &Settings, defect: Defect) -> [Released; 2] {
    let without = Defect::ALL.into_iter().filter(|&other| other != defect);
    [Released::new(settings.clone(), Defect::ALL), Released::new(settings.clone(), without)]
}

/// For long, core 0 has used 10 of 100, and core 1 nearly all of its 50: core 0 donates 90.
fn learn(release: &mut Released) {
    let cores = release.cores();
    for _ in 0..20 {
        use_up_to(release, 0, 10);
        if cores > 1 {
            // All but one: without reclaiming what core 0 has donated.
            use_up_to(release, 1, 49);
        }
        (0..cores).for_each(|core| release.period_start(core));
    }
    assert_eq!(release.current_budget(0), 10);
}

/// The same with ours.
fn learn_ours(ours: &mut System<Ewma>) {
    for _ in 0..20 {
        ours.use_up_to(0, 10);
        if ours.guard.config().cores > 1 {
            ours.use_up_to(1, 49);
        }
        ours.period_starts();
    }
    assert_eq!(ours.guard.used(0).donated, 90);
}

#[test]
fn a_reclaiming_core_gets_a_whole_budget() {
    let settings = release(&[100], Exclusive::Off);
    let used = with_and_without(&settings, Defect::ReclaimOverGrants).map(|mut release| {
        learn(&mut release);
        use_up_to(&mut release, 0, 1000)
    });
    // 10 after the donation, then a whole budget for the 90 that were donated.
    assert_eq!(used, [110, 100]);

    let mut ours = ours(&[100], Sharing::Off);
    learn_ours(&mut ours);
    assert_eq!(ours.use_up_to(0, 1000), 100);
}

#[test]
fn a_raided_donor_uses_its_donation_as_well() {
    let settings = release(&[100, 50], Exclusive::Off);
    let both = |mut release: Released| {
        learn(&mut release);
        [1, 0].map(|core| use_up_to(&mut release, core, 10_000))
    };
    // 150 are reserved. The raider has also got a whole budget for the one event that it had donated itself.
    assert_eq!(both(Released::new(settings.clone(), Defect::ALL)), [149, 110]);
    // Alone: the raider gets what it takes, and the donor a whole budget on top of what it has kept.
    assert_eq!(both(Released::new(settings.clone(), [Defect::RaidedDonor])), [140, 110]);
    assert_eq!(both(Released::new(settings, [])), [140, 10]);

    let mut ours = ours(&[100, 50], Sharing::Off);
    learn_ours(&mut ours);
    assert_eq!([1, 0].map(|core| ours.use_up_to(core, 10_000)), [140, 10]);
    // The donor did not get its budget, and that is reported.
    assert_eq!(ours.shortfalls(), [(0, 90)]);
}

#[test]
fn an_underrun_is_followed_by_another() {
    let settings = release(&[100, 50], Exclusive::Off);
    // Raids hide underruns.
    let others = |defect: &Defect| ![Defect::RaidedDonor, Defect::UnreachableCompensation].contains(defect);
    let defects: Vec<Defect> = Defect::ALL.into_iter().filter(others).collect();
    let donated = [vec![Defect::UnreachableCompensation], vec![]].map(|unreachable| {
        let mut release = Released::new(settings.clone(), unreachable.into_iter().chain(defects.clone()));
        learn(&mut release);
        use_up_to(&mut release, 1, 10_000);
        assert_eq!(use_up_to(&mut release, 0, 10_000), 10);
        release.period_start(0);
        100 - release.current_budget(0)
    });
    assert_eq!(donated, [90, 0]);

    let mut ours = ours(&[100, 50], Sharing::Off);
    learn_ours(&mut ours);
    ours.use_up_to(1, 10_000);
    assert_eq!(ours.use_up_to(0, 10_000), 10);
    ours.period_starts();
    assert_eq!(ours.guard.used(0).donated, 0);
}

#[test]
fn an_exempt_core_is_throttled() {
    let settings = Settings { exempt: BTreeSet::from([0]), ..release(&[100, 50], Exclusive::Off) };
    let used =
        with_and_without(&settings, Defect::ExemptionWithoutEffect).map(|mut release| use_up_to(&mut release, 0, 1000));
    assert_eq!(used, [100, 1000]);

    let mut ours = ours(&[100, 50], Sharing::Off);
    let mut actions = Vec::new();
    ours.guard.exempt(0, 0, &mut actions);
    actions.into_iter().for_each(|action| ours.carry_out(action));
    assert_eq!(ours.use_up_to(0, 1000), 1000);
}

#[test]
fn an_idle_core_blocks_sharing() {
    let settings = Settings { reclaim: false, ..release(&[100, 50, 50], Exclusive::Spare) };
    let used = with_and_without(&settings, Defect::IdleBlocksSharing).map(|mut release| {
        release.set_idle(0, true);
        for core in [1, 2] {
            use_up_to(&mut release, core, 1000);
        }
        [1, 2].map(|core| use_up_to(&mut release, core, 1000))
    });
    assert_eq!(used, [[0, 0], [1000, 1000]]);

    let mut ours = ours(&[100, 50, 50], Sharing::Spare);
    ours.on(Event::Idle { core: 0, unused: 0 });
    for core in [1, 2] {
        ours.use_up_to(core, 1000);
    }
    assert_eq!([1, 2].map(|core| ours.use_up_to(core, 1000)), [1000, 1000]);
    // The idle core keeps its budget: when it becomes busy, the others stop.
    ours.on(Event::Busy { core: 0 });
    assert_eq!([1, 2].map(|core| ours.is_stopped(core)), [true, true]);
    assert_eq!(ours.use_up_to(0, 100), 100);
}

#[test]
fn a_period_that_begins_early_ignores_the_donation() {
    let settings = release(&[100, 50], Exclusive::Proportional);
    let budget_and_counter = [vec![Defect::RestartWithoutStop], vec![]].map(|restart| {
        let mut release = Released::new(settings.clone(), restart.into_iter().chain([Defect::UnreachableCompensation]));
        learn(&mut release);
        // Core 1 takes the donation as well. Then both have used all there is, and the next period begins.
        assert_eq!(use_up_to(&mut release, 1, 10_000), 140);
        use_up_to(&mut release, 0, 10);
        (release.current_budget(0), release.until_overflow(0))
    });
    assert_eq!(budget_and_counter, [(10, 100), (10, 10)]);

    let mut ours = ours(&[100, 50], Sharing::Proportional);
    learn_ours(&mut ours);
    let before = ours.guard.core(0).period();
    assert_eq!(ours.use_up_to(1, 10_000), 140);
    assert_eq!(ours.use_up_to(0, 10), 10);
    assert_eq!(ours.guard.core(0).period(), before + 1);
    // What it was short of is not donated again, and all of the new budget can be used.
    assert_eq!(ours.guard.used(0).donated, 0);
    assert_eq!(ours.use_up_to(0, 99), 99);
}

#[test]
fn events_in_the_kernel_are_not_counted() {
    let settings = release(&[100, 50], Exclusive::Off);
    let used = with_and_without(&settings, Defect::KernelUncounted)
        .map(|mut release| use_by(&mut release, 0, 1000, By::Kernel));
    assert_eq!(used, [1000, 100]);

    // Ours does not ask where an event comes from.
    assert_eq!(ours(&[100, 50], Sharing::Off).use_up_to(0, 1000), 100);
}

#[test]
fn what_is_more_urgent_than_the_throttling_thread_goes_on() {
    let settings = release(&[100, 50], Exclusive::Off);
    let used = with_and_without(&settings, Defect::UrgentUnthrottled).map(|mut release| {
        use_up_to(&mut release, 0, 1000);
        [By::Task, By::Urgent].map(|by| use_by(&mut release, 0, 1000, by))
    });
    assert_eq!(used, [[0, 1000], [0, 0]]);

    // Ours has no classes of tasks: throttled is the core. How it is stopped is the backend's part.
    let mut ours = ours(&[100, 50], Sharing::Off);
    assert_eq!(ours.use_up_to(0, 1000), 100);
    assert!(ours.is_stopped(0));
}

#[test]
fn cores_that_come_and_go_are_not_noticed() {
    let settings =
        Settings { offline: BTreeSet::from([2]), reclaim: false, ..release(&[100, 50, 50], Exclusive::Spare) };
    let used = with_and_without(&settings, Defect::HotplugUnseen).map(|mut release| {
        // Core 0 goes: what was not throttled blocks sharing for ever.
        release.set_online(0, false);
        use_up_to(&mut release, 1, 50);
        let shared = use_up_to(&mut release, 1, 1000);
        // Core 2 comes.
        release.set_online(2, true);
        [shared, use_up_to(&mut release, 2, 1000)]
    });
    assert_eq!(used, [[0, 1000], [1000, 50]]);

    // To ours, a core that goes is idle, and all cores begin as idle.
    let mut ours = ours(&[100, 50, 50], Sharing::Spare);
    ours.on(Event::Idle { core: 2, unused: 0 });
    ours.on(Event::Idle { core: 0, unused: 0 });
    ours.use_up_to(1, 50);
    assert_eq!(ours.use_up_to(1, 1000), 1000);
    ours.on(Event::Busy { core: 2 });
    assert!(ours.is_stopped(1));
    assert_eq!(ours.use_up_to(2, 50), 50);
}

#[test]
fn the_divisor_overflows_from_2048_us_on() {
    // 1 GiB/s.
    let events = |period_us: i64| (1 << 30) * period_us / (64 * 1_000_000);
    let settings = release(&[100], Exclusive::Off);
    let printed = |period_us: i32| {
        with_and_without(&settings, Defect::DivisorOverflow)
            .map(|release| release.printed_bandwidth(events(period_us.into()), period_us))
    };
    assert_eq!(printed(1000), [1023, 1023]);
    assert_eq!(printed(2047), [1023, 1023]);
    let [overflown, mended] = printed(2048);
    assert!(overflown < 0);
    assert_eq!(mended, 1023);
    assert_eq!(printed(4096), [0, 1023]);
    for period_us in [1000, 2047, 2048, 4096, 1_000_000] {
        let period = Picoseconds(period_us as u64 * 1_000_000);
        let mib = bandwidth(events(period_us) as u64, 64, period) >> 20;
        assert!((1023..=1024).contains(&mib), "{mib} at {period_us} us");
    }
}

/// Shares as soon as both cores have used their budgets.
fn shared_by_all(release: &mut Released) {
    use_up_to(release, 0, 100);
    use_up_to(release, 1, 50);
}

#[test]
fn assertions_of_handlers_fail_in_threads() {
    let settings = Settings { reclaim: false, ..release(&[100, 50], Exclusive::Off) };
    let in_kernel = |preempt_rt: bool, begins: fn(&mut Released)| {
        with_and_without(&settings, Defect::AssertedContext).map(|release| {
            let kernel = Kernel { version: (6, 12), preempt_rt };
            let mut release = release.in_kernel(kernel).expect("6.12 has all functions");
            begins(&mut release);
            (release.complaints().to_vec(), use_up_to(&mut release, 1, 1000))
        })
    };
    let [period, overflow]: [fn(&mut Released); 2] =
        [|release| release.period_start(0), |release| _ = use_up_to(release, 0, 1000)];
    for begins in [period, overflow] {
        assert_eq!(in_kernel(false, begins), [(vec![], 50), (vec![], 50)]);
    }
    // The machine stops, or the core is never throttled again.
    assert_eq!(in_kernel(true, period), [(vec![Complaint::Bug("irqs_disabled()")], 0), (vec![], 50)]);
    assert_eq!(in_kernel(true, overflow), [(vec![Complaint::Bug("in_irq()")], 1000), (vec![], 50)]);
}

#[test]
fn sharing_calls_other_cores_with_interrupts_off() {
    for (exclusive, sharing) in [(Exclusive::Spare, Sharing::Spare), (Exclusive::Proportional, Sharing::Proportional)] {
        let settings = Settings { reclaim: false, ..release(&[100, 50], exclusive) };
        let complaints = with_and_without(&settings, Defect::CallWithInterruptsOff).map(|mut release| {
            shared_by_all(&mut release);
            release.complaints().to_vec()
        });
        assert_eq!(complaints, [vec![Complaint::CallWithInterruptsOff], vec![]]);

        // Ours calls no core: its actions name what each one has to do.
        let mut ours = ours(&[100, 50], sharing);
        assert_eq!(ours.use_up_to(0, 100), 100);
        assert!(ours.is_stopped(0));
        ours.log.clear();
        assert_eq!(ours.use_up_to(1, 50), 50);
        let told = |core, action: &Action| match *action {
            Action::Release { core: released, .. } => released == core,
            Action::NextPeriod { .. } => true,
            _ => false,
        };
        assert!((0..2).all(|core| ours.log.iter().any(|action| told(core, action))), "{:?}", ours.log);
    }
}

#[test]
fn a_text_is_parsed_beyond_its_end() {
    let settings = Settings { reclaim: false, ..release(&[100, 50], Exclusive::Off) };
    let used_after = |text: &str| {
        with_and_without(&settings, Defect::UnterminatedText).map(|mut release| {
            release.write_limits("400 300");
            release.write_limits(text);
            (0..2).for_each(|core| release.period_start(core));
            [0, 1].map(|core| use_up_to(&mut release, core, 100_000))
        })
    };
    // What is behind the text is of the write before.
    assert_eq!(used_after("7"), [[700, 300], [7, 300]]);
    assert_eq!(used_after("7 200"), [[7, 20_000], [7, 200]]);
    assert_eq!(used_after("0 20"), [[400, 300]; 2]);
    // Ours takes numbers. Text is read by the command, which has its length (crates/cli/tests/it/guard.rs).
}

#[test]
fn a_throttled_core_spins() {
    let settings = release(&[100, 50], Exclusive::Off);
    let spinning = with_and_without(&settings, Defect::SpinningWhileThrottled).map(|mut release| {
        assert!(!release.is_spinning(0));
        use_up_to(&mut release, 0, 1000);
        (release.is_throttled(0), release.is_spinning(0))
    });
    assert_eq!(spinning, [(true, true), (true, false)]);

    // Ours says that the core is stopped and does nothing until it is asked again. That the CPU is free then is the backend's part
    // (crates/cli/tests/live/guard.rs).
    let mut ours = ours(&[100, 50], Sharing::Off);
    ours.use_up_to(0, 100);
    assert_eq!(
        ours.log.last(),
        Some(&Action::Throttle { core: 0, reason: ThrottleReason::Exhausted { shortfall: 0 } })
    );
}

#[test]
fn each_overflow_is_traced() {
    let settings = release(&[100, 50], Exclusive::Off);
    let lines = with_and_without(&settings, Defect::AlwaysTracing).map(|mut release| {
        for _ in 0..10 {
            use_up_to(&mut release, 0, 1000);
            release.period_start(0);
        }
        release.trace_lines()
    });
    assert_eq!(lines, [10, 0]);
    // Ours has no output but its actions; what an event costs is measured by `memtint bench guard`.
}

#[test]
fn the_module_cannot_be_compiled_for_recent_kernels() {
    let settings = release(&[100, 50], Exclusive::Off);
    let compiled = |version| {
        with_and_without(&settings, Defect::RemovedFunction)
            .map(|release| release.in_kernel(Kernel { version, preempt_rt: false }).is_ok())
    };
    assert_eq!([(6, 1), (6, 14), (6, 15), (7, 0)].map(compiled), [[true; 2], [true; 2], [false, true], [false, true]]);
    let error = Released::new(settings, Defect::ALL).in_kernel(Kernel { version: (6, 18), preempt_rt: false });
    assert_eq!(error.expect_err("removed").to_string(), "hrtimer_init is not part of Linux 6.15 and newer");
}
