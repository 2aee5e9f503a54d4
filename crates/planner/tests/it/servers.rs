//! Is a plan with copied tasks that is said to be the best really the best? Every choice of the space is tried.

use memtint_analysis::output::ServerChoice;
use memtint_analysis::{Answer, Inside, Question, Scheduler, ServerSpec, TaskSystem, answer};
use memtint_hiding::crs::{Kind, judge, saturated_hiding};
use memtint_planner::{NoServers, Plan, PlanError, Wanted, Why, find_servers};
use memtint_sched::AnalysisLimits;
use memtint_units::{Picoseconds, Random};
use num_bigint::BigUint;
use num_rational::Ratio;

const UNIT: Picoseconds = Picoseconds(1_000_000_000);
const STEPS: u64 = 2;

/// A short task that no server can hold alone, and two or three that either may have.
fn random_file(random: &mut Random) -> TaskSystem {
    let mut text = "[memory]\nranks = 2\ndensity = 8\nlock = \"20 us\"\nunlock = \"1 us\"\n\
                    [[color]]\nname = \"c1\"\nranks = \"0\"\nphase = \"32 ms\"\n[[color]]\nname = \"c2\"\nranks = \"1\"\n"
        .to_owned();
    let mut task = |name: &str, period_us: u64, wcet_us: u64| {
        text += &format!("[[task]]\nname = \"{name}\"\nperiod = \"{period_us} us\"\nwcet = \"{wcet_us} us\"\n");
    };
    task("short", random.within(2000, 2800), random.within(50, 200));
    for index in 0..random.within(2, 3) {
        task(&format!("long{index}"), random.within(20, 64) * 1000, random.within(500, 4000));
    }
    TaskSystem::parse("random.toml", &text).unwrap()
}

fn planned(file: &TaskSystem) -> Result<Plan, NoServers> {
    let grid = Some((UNIT, Picoseconds(UNIT.0 * STEPS)));
    let limits = AnalysisLimits { candidate_events_max: 2000, ..AnalysisLimits::default() };
    find_servers(file, &Wanted { grid, ..Wanted::default() }, limits, &|_| {}).unwrap()
}

fn choice(plan: &Plan) -> &ServerChoice {
    let Why::Servers(why) = &plan.why else { panic!("servers were looked for") };
    &why.choice
}

/// The part of all time in which servers that always have something to do leave refresh unhidden.
fn cost(file: &TaskSystem) -> Ratio<BigUint> {
    let (hiding, span) = saturated_hiding(&file.system().unwrap(), 0, 10_000).unwrap();
    Ratio::new(hiding.iter().map(|own| BigUint::from(own.unhidden.0)).sum(), span.0.into())
}

/// Every choice of the space: periods and budgets of both servers, and a server for each task that is not copied.
fn choices(file: &TaskSystem) -> Vec<TaskSystem> {
    let pairs: Vec<(u64, u64)> =
        (1..=STEPS).flat_map(|period| (1..=period).map(move |budget| (period, budget))).collect();
    let server = |color: usize, (period, budget): (u64, u64)| ServerSpec {
        name: format!("S{}", color + 1),
        color,
        core: 0,
        period: Picoseconds(UNIT.0 * period),
        budget: Picoseconds(UNIT.0 * budget),
        kind: Kind::Deferrable,
        inside: Inside::Edf,
    };
    let mut all = Vec::new();
    for &first in &pairs {
        for &second in &pairs {
            for mask in 0..1u32 << (file.tasks.len() - 1) {
                let mut one = file.clone();
                one.servers = vec![server(0, first), server(1, second)];
                (one.tasks[0].server, one.tasks[0].copy_server) = (Some(0), Some(1));
                for (bit, task) in one.tasks[1..].iter_mut().enumerate() {
                    task.server = Some((mask >> bit & 1) as usize);
                }
                all.push(one);
            }
        }
    }
    all
}

#[test]
fn no_choice_that_passes_costs_less_than_a_plan_that_is_proved_best() {
    let mut random = Random::new(26);
    let (mut proved, mut found, mut none) = (0, 0, 0);
    for round in 0..16 {
        let file = random_file(&mut random);
        let passes = |file: &&TaskSystem| {
            // A server may have no task, or its tasks no room.
            let Ok(system) = file.system() else { return false };
            judge(&system, AnalysisLimits::default().effort, 2000).unwrap().is_schedulable()
        };
        // What is proved is about choices in which each server has a task that is not copied.
        let mut all = choices(&file);
        all.retain(|one| {
            [Some(0), Some(1)].iter().all(|server| one.tasks[1..].iter().any(|task| task.server == *server))
        });
        let best = all.iter().filter(passes).map(cost).min();
        match planned(&file) {
            Ok(plan) => {
                let report = answer(&Question::new(&plan.file, Scheduler::Crs)).unwrap();
                assert!(matches!(report.answer, Answer::Yes), "round {round}: the plan is proved again");
                let own = cost(&plan.file);
                assert_eq!(choice(&plan).unhidden_part, own.to_string());
                found += 1;
                if plan.why.is_proved() {
                    assert_eq!(Some(own), best, "round {round}: {:?}", plan.file.servers);
                    assert!(choice(&plan).space.contains("leaves each server one that is not copied"));
                    proved += 1;
                }
            }
            Err(NoServers::Nowhere { .. }) => none += 1,
            Err(other) => panic!("round {round}: {other}"),
        }
    }
    println!("found {found}, proved {proved}, none {none}");
    assert!(proved >= 5 && none > 0, "found {found}, proved {proved}, none {none}");
}

/// A server of copied tasks alone needs less than the bound supposes: such a choice can cost less than a plan that is proved best
/// among those in which each server has another task, and no plan of this kind is said to be proved.
#[test]
fn a_server_of_copied_tasks_alone_is_not_in_what_is_proved() {
    let text = "[memory]\nranks = 8\ndensity = 8\nbursts = \"serial\"\nlock = \"20 us\"\nunlock = \"1 us\"\n\
                [[task]]\nname = \"short\"\nperiod = \"2 ms\"\nwcet = \"20 us\"\n\
                [[task]]\nname = \"long\"\nperiod = \"60 ms\"\nwcet = \"300 us\"\n";
    let file = TaskSystem::parse("alone.toml", text).unwrap();
    let us = |value: u64| Picoseconds(value * 1_000_000);
    let wanted = Wanted { grid: Some((us(50), us(1000))), ..Wanted::default() };
    let plan = find_servers(&file, &wanted, AnalysisLimits::default(), &|_| {}).unwrap().unwrap();
    let mut cheaper = plan.file.clone();
    for (server, (period, budget)) in cheaper.servers.iter_mut().zip([(350, 300), (1000, 1000)]) {
        (server.period, server.budget) = (us(period), us(budget));
    }
    let report = answer(&Question::new(&cheaper, Scheduler::Crs)).unwrap();
    assert!(matches!(report.answer, Answer::Yes) && cost(&cheaper) < cost(&plan.file), "{:?}", plan.file.servers);
    assert!(!plan.why.is_proved());
}

#[test]
fn what_prevents_a_search_is_named() {
    let refused = |tail: &str| {
        let text = format!("[[task]]\nname = \"a\"\nperiod = \"20 ms\"\nwcet = \"1 ms\"\n{tail}");
        let file = TaskSystem::parse("a.toml", &text).unwrap();
        find_servers(&file, &Wanted::default(), AnalysisLimits::default(), &|_| {})
    };
    let error = refused("[memory]\nranks = 1\ndensity = 8\n").unwrap_err();
    assert!(matches!(error, PlanError::Ranks { found: 1, .. }), "{error}");
    assert_eq!(error.to_string(), "a.toml: memory: ranks is 1; accepted for two colors is 2 or more");
    let color = "[memory]\nranks = 2\ndensity = 8\n[[color]]\nname = \"c\"\nranks = \"0-1\"\n";
    assert!(matches!(refused(color).unwrap_err(), PlanError::Colors { found: 1, .. }));
    assert!(refused("").unwrap_err().to_string().contains("[memory]"));
    let why = refused("ranks = 3\n[memory]\nranks = 4\ndensity = 8\n").unwrap().unwrap_err();
    assert_eq!(why, NoServers::Ranks { task: "a".to_owned(), ranks: 3, most: 2 });
    let long = "[memory]\nranks = 8\ndensity = 64\nbursts = \"serial\"\n";
    assert!(matches!(refused(long).unwrap().unwrap_err(), NoServers::Locked { .. }));
}
