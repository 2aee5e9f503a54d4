//! A report in words and tables.

use std::fmt::Write as _;

use memtint_analysis::{Answer, Line, Report, Row};

use crate::output::{table, time};
use crate::system::first_line;

/// Gives the text of a report.
pub(super) fn text(report: &Report) -> String {
    let mut text = first_line(&report.not_considered);
    let verdict = match &report.answer {
        Answer::Yes => "schedulable: every job meets its deadline".to_owned(),
        Answer::No(refusal) => format!("not schedulable: {}", refusal.sentence),
        Answer::Unsupported(reason) => format!("unsupported: {reason}"),
    };
    let _ = writeln!(text, "{} ({})", verdict, report.scheduler.name());
    if let Some(derived) = &report.derived {
        let _ = writeln!(text, "{derived}");
    }
    text.push('\n');
    text.push_str(&task_table(report));
    for section in &report.sections {
        let _ = writeln!(text, "\n{}", table(&section.heads, &section.right, &section.rows).trim_end());
    }
    let _ = writeln!(text, "\ntheorem: {}", report.theorem);
    let _ = writeln!(text, "utilization: {}", report.set.utilization());
    for Line { label, text: found } in &report.findings.lines {
        let _ = writeln!(text, "{label}: {found}");
    }
    for assumption in &report.assumptions {
        let _ = writeln!(text, "assumes: {assumption}");
    }
    let _ = match &report.witness {
        Ok(chart) => writeln!(text, "witness: {}", chart.summary()),
        Err(reason) => writeln!(text, "witness: none, {reason}"),
    };
    text
}

/// The tasks; columns in which nothing is known of any are left out.
fn task_table(report: &Report) -> String {
    let mut heads =
        vec!["task", "priority", "period", "wcet", "deadline", "worst response", "slack", "in job", "wcet factor"];
    heads.extend(report.rows.iter().take(1).flat_map(|row| row.findings.lines.iter().map(|line| line.label)));
    let rows: Vec<Vec<String>> = report.rows.iter().enumerate().map(|(index, row)| cells(report, index, row)).collect();
    let known: Vec<usize> = (0..heads.len()).filter(|&column| rows.iter().any(|row| row[column] != "-")).collect();
    let right: Vec<usize> = (0..known.len()).filter(|&column| (1..8).contains(&known[column])).collect();
    let heads: Vec<&str> = known.iter().map(|&column| heads[column]).collect();
    let pick = |row: Vec<String>| known.iter().map(|&column| row[column].clone()).collect();
    table(&heads, &right, &rows.into_iter().map(pick).collect::<Vec<_>>())
}

fn cells(report: &Report, index: usize, row: &Row) -> Vec<String> {
    let task = &report.set.tasks()[index];
    let dash = || "-".to_owned();
    let worst = row.worst.as_ref();
    let response = worst.map(|worst| time(worst.response)).or(row.unbounded.as_ref().map(|_| "unknown".to_owned()));
    let slack = worst.map(|worst| worst.slack(&report.set).map_or("late".to_owned(), time));
    let mut cells = vec![
        task.name().to_owned(),
        row.priority.map_or_else(dash, |rank| rank.to_string()),
        time(task.period()),
        time(task.wcet()),
        time(task.deadline()),
        response.unwrap_or_else(dash),
        slack.unwrap_or_else(dash),
        worst.map_or_else(dash, |worst| worst.job.to_string()),
        row.scaling.clone().unwrap_or_else(dash),
    ];
    cells.extend(row.findings.lines.iter().map(|line| line.text.clone()));
    cells
}
