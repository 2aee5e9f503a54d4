//! What a simulation came to, for people.

use std::fmt::Write as _;

use memtint_refresh::{Bound, Outcome, TaskOutcome, short};

use crate::output::{table, time};

pub(super) fn text(outcome: &Outcome) -> String {
    let mut text = String::new();
    let period = match outcome.hyperperiod {
        Some(one) => format!("hyperperiod {}", time(one)),
        None => "part of a hyperperiod".to_owned(),
    };
    let _ = writeln!(
        text,
        "scheme     {}, tRFC {}\nsimulated  {}, {period}\n",
        outcome.scheme.name(),
        time(outcome.t_rfc),
        time(outcome.duration)
    );
    let heads =
        ["task", "ranks", "alone", "jobs", "late", "response min", "mean", "max", "deadline", "bound", "within"];
    let rows: Vec<Vec<String>> = outcome.tasks.iter().map(response_row).collect();
    text.push_str(&table(&heads, &[2, 3, 4, 5, 6, 7, 8, 9], &rows));
    let heads =
        ["task", "references", "wcet", "execution min", "mean", "max", "latency mean", "max", "preempted", "copies"];
    let rows: Vec<Vec<String>> = outcome.tasks.iter().map(execution_row).collect();
    let _ = write!(text, "\n{}", table(&heads, &[1, 2, 3, 4, 5, 6, 7, 8, 9], &rows));
    let _ = writeln!(text, "\nbounds: {}", outcome.analysis);
    for task in &outcome.tasks {
        if let Bound::Unknown(reason) = &task.bound {
            let _ = writeln!(text, "        none for {}: {reason}", task.name);
        }
    }
    for task in outcome.beyond() {
        let (name, longest) = (&task.name, short(task.execution.max));
        let _ = writeln!(text, "beyond its bound: {name}, whose longest job took {longest} of {}", time(task.wcet));
    }
    for task in outcome.tasks.iter().filter(|task| task.execution.max > task.wcet && !stalls(outcome)) {
        let (name, longest) = (&task.name, short(task.execution.max));
        let _ = writeln!(
            text,
            "longer than its WCET: {name}, {longest} of {}; other tasks cost it that, and bounds suppose that WCETs hold it (--spared)",
            time(task.wcet)
        );
    }
    let busy: Vec<String> =
        (0..outcome.busy.len()).map(|core| format!("{:.2} %", 100.0 * outcome.busy_share(core))).collect();
    let _ = writeln!(text, "cores busy: {}", busy.join(", "));
    let _ = writeln!(text, "requests that met a refresh of their rank: {}", outcome.requests_met());
    let _ = writeln!(text, "retention: {}", retention(outcome));
    if let Some(locked) = &outcome.locked {
        let unhidden: Vec<String> = locked.unhidden.iter().map(|&time| short(time)).collect();
        let _ = writeln!(
            text,
            "locks: {} of {}, unlocks of {}{}; {} with some rank locked; not hidden, by core: {}; lock and unlock tasks took {}; {} dirty lines \
             written back; jobs that went over to another instance: {}, with {} lines copied",
            locked.locks,
            time(locked.lock_task),
            time(locked.unlock_task),
            if locked.assumed { " (assumed: the file gives none)" } else { "" },
            short(locked.locked),
            unhidden.join(", "),
            short(locked.tasks),
            locked.cleaned_lines,
            locked.copies,
            locked.copied_lines
        );
    }
    if let Some(beyond) = outcome.scheme.beyond_standard() {
        let _ = writeln!(text, "standard: not kept: {beyond}");
    }
    let complaints = outcome.complaints();
    match complaints.is_empty() {
        true => {
            let _ = writeln!(text, "\nholds: every deadline is met{}", reservations(outcome));
        }
        false => {
            for complaint in complaints {
                let _ = writeln!(text, "\nfails: {complaint}");
            }
        }
    }
    text
}

/// What an outcome without complaints does not show: the simulated part of the schedule, and tasks without a bound or beyond it.
fn reservations(outcome: &Outcome) -> String {
    let names = |tasks: Vec<&TaskOutcome>| tasks.iter().map(|task| task.name.as_str()).collect::<Vec<_>>().join(", ");
    let mut all = Vec::new();
    if outcome.hyperperiod.is_none() {
        all.push(format!("in the simulated {}, which is part of a hyperperiod", time(outcome.duration)));
    }
    let unknown: Vec<&TaskOutcome> =
        outcome.tasks.iter().filter(|task| matches!(task.bound, Bound::Unknown(_))).collect();
    if !unknown.is_empty() {
        all.push(format!("by simulation only for {}, because the analysis gives no bound", names(unknown)));
    }
    if !outcome.beyond().is_empty() {
        all.push(format!("but responses exceed the bound of {}", names(outcome.beyond())));
    }
    all.iter().map(|reservation| format!(", {reservation}")).collect()
}

/// Whether jobs stand still while memory is refreshed, which is no part of a WCET.
fn stalls(outcome: &Outcome) -> bool {
    outcome.retention.is_some() && !outcome.scheme.locks()
}

fn retention(outcome: &Outcome) -> String {
    match (&outcome.retention, outcome.refresh_gap) {
        (Some(found), Some(gap)) if found.losses == 0 => {
            format!("every row in time, after {} at most", short(gap))
        }
        (Some(found), _) => format!("{} refreshes came too late", found.losses),
        _ => "none: nothing is refreshed".to_owned(),
    }
}

fn response_row(task: &TaskOutcome) -> Vec<String> {
    let ranks: Vec<String> = task.ranks.iter().map(|ranks| list(ranks)).collect();
    vec![
        task.name.clone(),
        ranks.join(" / "),
        short(task.job.alone),
        task.response.count.to_string(),
        task.misses.to_string(),
        short(task.response.min),
        short(task.response.mean()),
        short(task.response.max),
        time(task.deadline),
        match &task.bound {
            Bound::Within(bound) => short(*bound),
            Bound::Unbounded => "unbounded".to_owned(),
            Bound::Unknown(_) => "-".to_owned(),
        },
        task.within().map_or("-", |within| if within { "yes" } else { "NO" }).to_owned(),
    ]
}

fn list(ranks: &[u32]) -> String {
    ranks.iter().map(u32::to_string).collect::<Vec<_>>().join(",")
}

fn execution_row(task: &TaskOutcome) -> Vec<String> {
    vec![
        task.name.clone(),
        task.job.references.to_string(),
        time(task.wcet),
        short(task.execution.min),
        short(task.execution.mean()),
        short(task.execution.max),
        short(task.latency.mean()),
        short(task.latency.max),
        task.preemptions.to_string(),
        task.copies.to_string(),
    ]
}
