//! Are the best frames chosen of all that there are? Each other choice is asked about alone; that each answer is right is a question of
//! `hiding`, whose tests have it.

use memtint_analysis::{Answer, Question, Report, Scheduler, TaskSystem, answer};
use memtint_planner::{FramePlan, Said, best_frames};
use memtint_units::Random;

const NODES_MAX: u64 = 20_000;

fn random_file(random: &mut Random) -> TaskSystem {
    let mut text = "[memory]\nranks = 8\ndensity = 2\n".to_owned();
    for index in 0..random.within(2, 3) {
        let period = [8, 16, 32, 64][random.within(0, 3) as usize];
        let wcet = random.within(1, period * 1000 / 3).max(200);
        let ranks = random.within(1, 2);
        text += &format!(
            "[[task]]\nname = \"t{index}\"\nperiod = \"{period} ms\"\nwcet = \"{wcet} us\"\nranks = {ranks}\n"
        );
    }
    TaskSystem::parse("random.toml", &text).unwrap()
}

/// Copies and extra slices of the table that was found.
fn costs(report: &Report) -> (u32, u64) {
    let facts = &report.findings.facts;
    (facts.copies.unwrap(), facts.slices_extra.unwrap())
}

#[test]
fn no_other_frames_have_fewer_copies_and_slices_than_a_plan_that_is_proved_best() {
    let mut random = Random::new(4);
    let (mut proved, mut copied, mut none) = (0, 0, 0);
    for round in 0..20 {
        let file = random_file(&mut random);
        let plan = match best_frames(&file, NODES_MAX, &|_| {}).unwrap() {
            FramePlan::Found(plan) => plan,
            FramePlan::Refuted(tried) => {
                assert!(!tried.is_empty() && tried.iter().all(|one| one.said == Said::Refuted));
                none += 1;
                continue;
            }
            FramePlan::Open(_) | FramePlan::NoFrame => continue,
        };
        let report = answer(&Question::new(&plan.file, Scheduler::ColoredRefresh)).unwrap();
        assert!(matches!(report.answer, Answer::Yes), "round {round}: the table is found again");
        let (copies, slices) = costs(&report);
        copied += u32::from(copies > 0);
        if !plan.why.is_proved() {
            continue;
        }
        proved += 1;
        for frames in file.frame_choices().unwrap() {
            let mut other = file.clone();
            (other.cyclic.frame, other.cyclic.color_frame) = (Some(frames.size), Some(frames.color));
            let report = answer(&Question::new(&other, Scheduler::ColoredRefresh)).unwrap();
            let Answer::Yes = report.answer else { continue };
            assert!((copies, slices) <= costs(&report), "round {round}: {frames:?}");
        }
    }
    println!("proved {proved}, with copies {copied}, none {none}");
    assert!(proved >= 5 && copied > 0, "proved {proved}, with copies {copied}, none {none}");
}
