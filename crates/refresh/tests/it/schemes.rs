//! Do tasks fare in each scheme as the analysis of that scheme says, and is it seen when a scheme does not keep its promise?

use memtint_analysis::{Inside, TaskSystem};
use memtint_hiding::crs::Density;
use memtint_hiding::cyclic::{Answer, Limits, color};
use memtint_refresh::{Bound, Caches, Options, Outcome, Prepared, RefreshError, Scheme, compare};
use memtint_sim::Ran;
use memtint_units::Picoseconds;

const MEMORY: &str = "[memory]\nranks = 8\ndensity = 2\nlock = \"20 us\"\nunlock = \"1 us\"\n";

/// Name, period and WCET in microseconds, and what else there is to say.
fn task(name: &str, period: u64, wcet: u64, more: &str) -> String {
    format!("[[task]]\nname = \"{name}\"\nperiod = \"{period} us\"\nwcet = \"{wcet} us\"\n{more}\n")
}

/// The example of `hiding::crs`, whose servers are proved.
fn servers() -> String {
    let server = |name: &str, color: &str, budget: &str| {
        format!(
            "[[server]]\nname = \"{name}\"\ncolor = \"{color}\"\nperiod = \"4 ms\"\nbudget = \"{budget}\"\nscheduling = \"rm\"\n"
        )
    };
    MEMORY.to_owned()
        + &task("one", 16_000, 4000, "lines = 1500\nserver = \"S1\"")
        + &task("two", 16_000, 2000, "program = \"refresh/lms\"\nserver = \"S1\"")
        + &task("three", 32_000, 8000, "lines = 2500\nranks = 2\nserver = \"S2\"")
        + &task("four", 64_000, 8000, "lines = 2000\nserver = \"S2\"")
        + "[[color]]\nname = \"c1\"\nranks = \"0-3\"\nphase = \"32 ms\"\n[[color]]\nname = \"c2\"\nranks = \"4-7\"\n"
        + &server("S1", "c1", "2 ms")
        + &server("S2", "c2", "4 ms")
}

/// Example 1 of section 4.3.5, and a task that is ready in every frame, so that it needs a copy.
fn frames() -> String {
    MEMORY.to_owned()
        + "[cyclic]\nframe = \"8 ms\"\n"
        + &task("A", 16_000, 4000, "lines = 3000")
        + &task("B", 32_000, 8000, "lines = 4000")
        + &task("C", 64_000, 12_000, "program = \"refresh/lms\"")
        + &task("short", 8000, 500, "lines = 500\ncopy = \"200 us\"\nglobals = \"16 KiB\"")
}

/// A task with a period that is shorter than the burst at 8 Gb, and may have another instance.
fn short(copy: &str) -> String {
    let server = |name: &str, color: &str, budget: u64| {
        format!(
            "[[server]]\nname = \"{name}\"\ncolor = \"{color}\"\nperiod = \"500 us\"\nbudget = \"{budget} us\"\nscheduling = \"rm\"\n"
        )
    };
    MEMORY.replace("density = 2", "density = 8")
        + &task("short", 1000, 100, &format!("lines = 50\nserver = \"S1\"\n{copy}"))
        + &task("one", 64_000, 6000, "lines = 2000\nserver = \"S1\"")
        + &task("two", 32_000, 6000, "lines = 3000\nserver = \"S2\"")
        + "[[color]]\nname = \"c1\"\nranks = \"0-3\"\nphase = \"32 ms\"\n[[color]]\nname = \"c2\"\nranks = \"4-7\"\n"
        + &server("S1", "c1", 150)
        + &server("S2", "c2", 500)
}

fn parse(text: &str) -> TaskSystem {
    TaskSystem::parse("test", text).unwrap()
}

fn prepared(text: &str, options: Options) -> Prepared {
    Prepared::new(&parse(text), options, 2, &|_| true).unwrap()
}

fn simulate(prepared: &Prepared, scheme: Scheme) -> Outcome {
    prepared.simulate(scheme, &|_| true).unwrap()
}

/// What every outcome obeys: a log without overlaps that adds up, and nobody who runs while one of his ranks is refreshed under
/// locks. Seen from the log and the commands, not from the simulator's own counts.
#[track_caller]
fn assert_sound(outcome: &Outcome) {
    let name = outcome.scheme.name();
    for core in 0..outcome.busy.len() {
        let runs: Vec<_> = outcome.runs.runs.iter().filter(|run| run.core == core).collect();
        assert!(runs.windows(2).all(|pair| pair[0].end <= pair[1].start), "{name}: runs of core {core} overlap");
        let busy: u64 =
            runs.iter().filter(|run| matches!(run.ran, Ran::Job { .. })).map(|run| run.end.0 - run.start.0).sum();
        // A reference that is not finished at the end counts when it is.
        assert!(outcome.busy[core].0.abs_diff(busy) <= 1_000_000, "{name}: {busy} of {:?}", outcome.busy[core]);
    }
    assert_eq!(outcome.runs.until, outcome.duration, "the log is whole");
    assert_eq!(outcome.losses(), 0, "{name}: {:?}", outcome.retention);
    if !outcome.scheme.locks() {
        return;
    }
    assert_eq!(outcome.requests_met(), 0, "{name}: {:?}", outcome.met);
    assert_eq!(outcome.refreshed_until, outcome.duration);
    assert!(!outcome.refreshed.is_empty());
    let mut seen = vec![0; outcome.tasks.len()];
    for run in &outcome.runs.runs {
        let Ran::Job { task: instance, .. } = run.ran else { continue };
        let task = outcome.instances[instance];
        let place = outcome.instances[..instance].iter().filter(|&&other| other == task).count();
        let ranks = &outcome.tasks[task].ranks[place];
        let meets = |burst: &&memtint_refresh::Refreshed| {
            ranks.contains(&burst.rank.0) && burst.start < run.end && run.start < burst.end
        };
        assert_eq!(outcome.refreshed.iter().find(meets), None, "{name}: {} in {run:?}", outcome.tasks[task].name);
        seen[task] += 1;
    }
    assert!(seen.iter().all(|&runs| runs > 0), "{seen:?}");
}

#[track_caller]
fn assert_within(outcome: &Outcome) {
    for task in &outcome.tasks {
        let (name, scheme) = (&task.name, outcome.scheme.name());
        assert_eq!(task.within(), Some(true), "{scheme}, {name}: {:?} of {:?}", task.response, task.bound);
        assert!(task.execution.max <= task.wcet || scheme != "none", "{name}: {:?} of {}", task.execution, task.wcet);
    }
}

#[test]
fn a_job_alone_takes_nearly_all_of_its_wcet_and_no_more() {
    for caches in [Caches::Dissertation, Caches::None] {
        for (text, jobs) in [("lines = 2000", 8), ("program = \"refresh/st\"", 8), ("lines = 1", 8)] {
            let text = MEMORY.to_owned() + &task("one", 8000, 1000, text);
            let prepared = prepared(&text, Options { caches, ..Options::default() });
            let job = &prepared.jobs()[0];
            let allowed = 995_000_000;
            assert!((allowed * 985 / 1000..=allowed).contains(&job.alone.0), "{text}: {job:?}");
            let outcome = simulate(&prepared, Scheme::None);
            assert_sound(&outcome);
            let found = &outcome.tasks[0];
            assert_eq!((found.execution.max, found.response.max), (job.alone, job.alone), "alone it is alone");
            assert_eq!((found.response.count, found.misses, job.jobs), (jobs, 0, jobs));
        }
    }
}

/// A task that always waits for memory stands still for tRFC in each tREFI, and for little more.
#[test]
fn a_saturating_task_loses_the_share_that_refreshes_take() {
    // Lines one after the other at 8 cores' distance: what is left between them is nothing.
    let text = MEMORY.to_owned() + &task("one", 64_000, 2000, "program = \"refresh/st\"");
    let prepared = prepared(&text, Options::default());
    let base = simulate(&prepared, Scheme::None).tasks[0].execution.mean().0 as f64;
    for density in [Density::Gb8, Density::Gb64] {
        let with = prepared.with_density(density);
        let t_rfc = density.t_rfc().0 as f64;
        let share = t_rfc / 7.8e6;
        for scheme in [Scheme::Auto, Scheme::Fgr1] {
            let outcome = simulate(&with, scheme);
            assert!(outcome.requests_met() > 0 && outcome.losses() == 0);
            // Reads that take 50 ns of each 70: a refresh is met sooner or later; at most it takes tRFC and reopening.
            let slower = outcome.tasks[0].execution.mean().0 as f64 / base;
            let most = 1.0 / (1.0 - share - 0.08 / 7.8);
            assert!(slower < most && slower > 1.0 / (1.0 - 0.75 * share), "{scheme:?} {density:?}: {slower} {share}");
        }
    }
}

#[test]
fn servers_hide_refresh_and_keep_their_bounds() {
    let prepared = prepared(&servers(), Options::default());
    for density in [Density::Gb1, Density::Gb2] {
        let outcome = simulate(&prepared.with_density(density), Scheme::Crs);
        assert_sound(&outcome);
        assert_within(&outcome);
        assert!(outcome.holds());
        let locked = outcome.locked.as_ref().unwrap();
        // One lock of each color, and the next of the second at the very end.
        assert!((2..=3).contains(&locked.locks), "{locked:?}");
        assert_eq!(outcome.tasks[2].ranks, [[4, 5]]);
    }
    let far = simulate(&prepared.with_density(Density::Gb64), Scheme::Crs);
    assert!(!far.holds() && far.misses() > 0 && far.requests_met() == 0, "a burst is as long as a period");
    assert!(far.tasks.iter().all(|task| matches!(task.bound, Bound::Unknown(_))));
    assert!(far.unhidden().unwrap() > Picoseconds(0));
}

#[test]
fn a_cyclic_executive_meets_no_refresh_and_keeps_its_bounds() {
    let prepared = prepared(&frames(), Options::default());
    for density in [Density::Gb1, Density::Gb16] {
        let outcome = simulate(&prepared.with_density(density), Scheme::ColoredRefresh);
        assert_sound(&outcome);
        assert_within(&outcome);
        assert!(outcome.holds(), "{:?}", outcome.tasks);
        let [.., short] = &outcome.tasks[..] else { panic!("four tasks") };
        assert!(short.ranks.len() == 2 && short.copies > 0, "{short:?}");
        let locked = outcome.locked.as_ref().unwrap();
        assert_eq!(locked.copied_lines, locked.copies * (16 << 10) / 64, "what is copied are the globals");
    }
    let far = prepared.with_density(Density::Gb64).simulate(Scheme::ColoredRefresh, &|_| true).unwrap_err();
    assert!(matches!(far, RefreshError::NoSchedule { scheme: "colored-refresh", .. }), "{far}");
}

/// 5.3.6: a job of a short task is executed by the instance whose color is not locked, and its data are copied before.
#[test]
fn a_copy_task_of_servers_keeps_a_short_task_in_time() {
    let copied = "copy_server = \"S2\"\ncopy = \"40 us\"\nglobals = \"4 KiB\"";
    let outcome = simulate(&prepared(&short(copied), Options { hyperperiods: 2, ..Options::default() }), Scheme::Crs);
    assert_sound(&outcome);
    assert_within(&outcome);
    assert!(outcome.holds(), "{:?}", outcome.tasks);
    let own = &outcome.tasks[0];
    assert_eq!((own.ranks.as_slice(), own.response.count), (&[vec![0], vec![5]][..], 128), "{own:?}");
    let locked = outcome.locked.as_ref().unwrap();
    // At 32, 64 and 96 ms, and for the job at 128 ms.
    assert_eq!((locked.copies, locked.copied_lines), (4, 4 * 64));
    let alone = simulate(&prepared(&short(""), Options::default()), Scheme::Crs);
    assert_eq!((alone.tasks[0].misses > 0, alone.requests_met()), (true, 0), "a burst takes 2.87 ms");
}

/// Ranks of a color take turns: it is locked for as many bursts.
#[test]
fn serial_bursts_lock_their_color_for_each_of_its_ranks() {
    let serial = |text: &str| text.replace("density = 2", "density = 1\nbursts = \"serial\"");
    let parallel =
        simulate(&prepared(&servers().replace("density = 2", "density = 1"), Options::default()), Scheme::Crs);
    let outcome = simulate(&prepared(&serial(&servers()), Options::default()), Scheme::Crs);
    assert_sound(&outcome);
    let locked = |outcome: &Outcome| outcome.locked.as_ref().unwrap().locked.0;
    // At 0 and 32 ms: 20 us, and a burst of 8192 times 110 ns; four of them.
    let burst = 8192 * 110_000;
    assert!(locked(&parallel).abs_diff(2 * (20_000_000 + burst)) < 20_000_000, "{:?}", parallel.locked);
    assert!(locked(&outcome).abs_diff(2 * (20_000_000 + 4 * burst)) < 20_000_000, "{:?}", outcome.locked);
    for outcome in [&parallel, &outcome] {
        assert!(outcome.tasks.iter().all(|task| task.within() != Some(false)), "{:?}", outcome.tasks);
    }
    // Colors of two ranks.
    let frames = MEMORY.to_owned()
        + "[cyclic]\nframe = \"8 ms\"\ncolor_frame = \"16 ms\"\n"
        + &task("A", 32_000, 4000, "lines = 3000")
        + &task("B", 64_000, 8000, "lines = 4000");
    let outcome = simulate(&prepared(&serial(&frames), Options::default()), Scheme::ColoredRefresh);
    assert_sound(&outcome);
    assert_within(&outcome);
    assert!(outcome.holds(), "{:?}", outcome.tasks);
    assert!(locked(&outcome).abs_diff(4 * (20_000_000 + 2 * burst)) < 20_000_000, "{:?}", outcome.locked);
}

/// The address map has room for a power of two; what is beyond the ranks of the file nobody uses.
#[test]
fn any_number_of_ranks_is_simulated() {
    for (ranks, first, second) in [(3, "0", "1-2"), (6, "0-2", "3-5")] {
        let text = servers()
            .replace("ranks = 8", &format!("ranks = {ranks}"))
            .replace("ranks = \"0-3\"", &format!("ranks = \"{first}\""))
            .replace("ranks = \"4-7\"", &format!("ranks = \"{second}\""));
        let prepared = prepared(&text, Options::default());
        let outcome = simulate(&prepared, Scheme::Crs);
        assert_sound(&outcome);
        assert_within(&outcome);
        assert!(outcome.holds() && outcome.refreshed.iter().all(|burst| burst.rank.0 < ranks));
        let auto = simulate(&prepared, Scheme::Auto);
        assert_sound(&auto);
        assert!(auto.requests_met() > 0 && auto.met.iter().all(|met| met.rank < ranks), "{:?}", auto.met);
        assert!(auto.tasks.iter().all(|task| task.within() != Some(false)), "{:?}", auto.tasks);
    }
}

#[test]
fn a_wrong_table_is_seen() {
    let prepared = prepared(&frames(), Options::default());
    let file = prepared.file();
    let problem = file.problem(file.frame_choices().unwrap()[0]).unwrap();
    let Answer::Schedulable(solution) = color(&problem, Limits::default()) else { panic!("there is a schedule") };
    let right = prepared.simulate_executive(&problem, &solution.executive, &|_| true).unwrap();
    assert!(right.holds());
    // Each task gets the data of the next color: it is locked out in some of its slots.
    let mut wrong = solution.executive.clone();
    for instance in wrong.instances.iter_mut().flatten() {
        instance.colors.0 = instance.colors.0 << 1 & 0xff | instance.colors.0 >> 7;
    }
    let found = prepared.simulate_executive(&problem, &wrong, &|_| true).unwrap();
    assert!(!found.holds() && found.misses() > 0, "{:?}", found.tasks);
    // Slots that are too short.
    let mut short = solution.executive;
    for slot in &mut short.slots {
        slot.end.0 -= (slot.end.0 - slot.start.0) / 50;
    }
    let found = prepared.simulate_executive(&problem, &short, &|_| true).unwrap();
    assert!(!found.holds() && found.misses() > 0 && found.requests_met() == 0);
}

#[test]
fn a_lock_without_time_lets_requests_meet_the_refresh() {
    let text = servers().replace("lock = \"20 us\"", "lock = \"1 ns\"");
    let outcome = simulate(&prepared(&text, Options::default()), Scheme::Crs);
    assert!(outcome.requests_met() > 0 && !outcome.holds());
    // It writes, and its lines are dirty when its ranks are locked at 32 ms.
    let of_two = outcome.met.iter().find(|met| met.tasks == ["two"]);
    assert!(of_two.is_some_and(|met| met.rank == 1), "{:?}", outcome.met);
}

/// Small deterministic generator.
fn draw(state: &mut u64, below: u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) % below
}

/// Random sets, priorities and schemes: no response is beyond its bound, wherever there is one.
#[test]
fn no_response_is_beyond_its_bound() {
    let (mut bounded, mut unbounded) = (0, 0);
    for seed in 0..9 {
        let mut state = seed;
        let mut text = MEMORY.replace("density = 2", ["density = 1", "density = 8", "density = 32"][seed as usize % 3]);
        for index in 0..2 + draw(&mut state, 3) {
            let period = [8000, 16_000, 32_000, 64_000][draw(&mut state, 4) as usize];
            let wcet = period * (5 + draw(&mut state, 25)) / 100;
            let (lines, phase) = (wcet * (1 + draw(&mut state, 5)) / 32, draw(&mut state, 4) * 1000);
            let more = format!(
                "lines = {lines}\nranks = {}\nphase = \"{phase} us\"\njitter = \"{} us\"",
                1 + draw(&mut state, 3),
                draw(&mut state, 500)
            );
            text += &task(&format!("t{index}"), period, wcet, &more);
        }
        let order = [Inside::Edf, Inside::RateMonotonic, Inside::DeadlineMonotonic][draw(&mut state, 3) as usize];
        let prepared = prepared(&text, Options { order, seed, jitter: true, ..Options::default() });
        for scheme in [Scheme::None, Scheme::Auto, Scheme::Fgr1, Scheme::Fgr2, Scheme::Burst] {
            let outcome = simulate(&prepared, scheme);
            assert_eq!(outcome.losses(), 0, "seed {seed}, {scheme:?}");
            for task in &outcome.tasks {
                match task.within() {
                    Some(within) => {
                        bounded += 1;
                        assert!(
                            within,
                            "seed {seed}, {scheme:?}, {:?}, {}: {:?} of {:?}\n{text}",
                            order, task.name, task.response, task.bound
                        );
                    }
                    None => unbounded += 1,
                }
            }
        }
    }
    assert!(bounded > 80, "{bounded} {unbounded}");
}

#[test]
fn a_comparison_does_not_depend_on_threads() {
    let prepared = prepared(&servers(), Options::default());
    let (schemes, densities) = ([Scheme::Auto, Scheme::Burst, Scheme::Crs], [Density::Gb2, Density::Gb32]);
    let run = |threads| compare(&prepared, &schemes, &densities, threads, &|_| true).unwrap();
    let (one, two) = (run(1), run(2));
    assert_eq!(one.none, two.none);
    assert_eq!(one.cells.len(), 6);
    for (left, right) in one.cells.iter().zip(&two.cells) {
        assert_eq!(left.outcome.as_ref().unwrap(), right.outcome.as_ref().unwrap());
    }
    let latency = |place: usize| one.cells[place].outcome.as_ref().unwrap().latency();
    assert!(latency(0) < latency(3), "auto-refresh grows with the density");
    assert!(
        latency(2).0.abs_diff(one.none.latency().0) * 500 < one.none.latency().0,
        "servers keep what it is without"
    );
}

#[test]
fn what_cannot_be_simulated_is_named() {
    let refused = |text: &str, scheme: Scheme, words: &[&str]| {
        let file = parse(text);
        let found =
            Prepared::new(&file, Options::default(), 1, &|_| true).and_then(|own| own.simulate(scheme, &|_| true));
        let error = found.map(|_| ()).unwrap_err().to_string();
        assert!(words.iter().all(|word| error.contains(word)), "{error}");
    };
    let silent = MEMORY.to_owned() + &task("one", 8000, 1000, "");
    for scheme in Scheme::ALL {
        refused(&silent, scheme, &["task \"one\": lines is not given", "program, a model of the catalogue"]);
    }
    let one = task("one", 8000, 1000, "lines = 10");
    refused(&one, Scheme::None, &["memory", "missing"]);
    refused(&(MEMORY.replace("ranks = 8", "ranks = 1") + &one), Scheme::None, &["memory: ranks", "1", "2 to 64"]);
    refused(&(MEMORY.to_owned() + &one), Scheme::Crs, &["server", "missing"]);
    let copy = task("one", 8000, 1000, "lines = 10\ncopy = \"1.6 us\"\nglobals = \"16 KiB\"");
    refused(&(MEMORY.to_owned() + &copy), Scheme::None, &["task \"one\": copy", "256 lines of globals"]);
    let far = short("copy_server = \"S2\"").replace("phase = \"32 ms\"", "phase = \"4 ms\"");
    refused(&far, Scheme::Crs, &["short", "between the locks", "a period and a deadline"]);
    let dense = task("one", 8000, 1000, "lines = 100000");
    refused(&(MEMORY.to_owned() + &dense), Scheme::None, &["task \"one\": wcet", "100000 lines"]);
    let nobody = task("one", 8000, 1000, "program = \"refresh/nobody\"");
    refused(&(MEMORY.to_owned() + &nobody), Scheme::None, &["nobody", "refresh/st"]);
    let many = task("one", 8000, 1000, "lines = 10\nranks = 9");
    refused(&(MEMORY.to_owned() + &many), Scheme::None, &["task \"one\"", "ranks", "9"]);
    let stopped = Prepared::new(&parse(&(MEMORY.to_owned() + &one)), Options::default(), 1, &|_| false);
    assert!(matches!(stopped, Err(RefreshError::Stopped)));
}

/// Without jitter in the simulation and with phases apart, no job is late; but utilization with refresh is above 1 for sporadic tasks.
#[test]
fn a_set_without_a_bound_does_not_hold() {
    let text = MEMORY.to_owned() + &task("one", 8000, 7990, "lines = 2000");
    let outcome = simulate(&prepared(&text, Options { spared_per_mille: 400, ..Options::default() }), Scheme::Auto);
    assert_eq!((outcome.misses(), outcome.losses()), (0, 0), "{outcome:?}");
    assert_eq!(outcome.unbounded().iter().map(|task| &task.name[..]).collect::<Vec<_>>(), ["one"]);
    assert!(!outcome.holds(), "unbounded responses, and nothing seen in 64 ms proves otherwise");
}
