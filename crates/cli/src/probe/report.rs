//! What a probe found, in words.

mod words;

use std::fmt::{self, Write as _};

use memtint_probe::session::{Banks, Outcome, PoolReport, Quartiles, SHIFTING, Seen, Subject, bit_list, selects, xor};
use memtint_probe::{Answer, Area, Shift};
use memtint_units::ByteSize;

use self::words::*;
use super::{caches, nodes};
use crate::output::table;

/// Differences that were timed less often are not called slow.
const SLOWEST_OFTEN: usize = 12;

/// All that was found.
pub(super) fn text(outcome: &Outcome) -> String {
    let mut out = String::new();
    // Writing to a String does not fail.
    let _ = write(&mut out, outcome);
    out
}

fn write(out: &mut String, outcome: &Outcome) -> fmt::Result {
    if let Some(banks) = &outcome.banks {
        write_banks(out, banks)?;
        writeln!(out)?;
    }
    if let Some(caches) = &outcome.caches {
        caches::write(out, caches)?;
        writeln!(out)?;
    }
    if let Some(nodes) = &outcome.nodes {
        nodes::write(out, nodes)?;
        writeln!(out)?;
    }
    writeln!(out, "asked       {}", outcome.subject)?;
    write_details(out, &outcome.subject)?;
    outcome.advice().iter().try_for_each(|advice| writeln!(out, "advice      {advice}"))
}

/// The answer about banks, in a sentence.
pub(super) fn answer(banks: &Banks) -> String {
    match &banks.report.answer {
        Answer::Mapping(mapping) => format!("a mapping, {}", sure(mapping)),
        Answer::Partial(mapping, _) => format!("a partial mapping, {}", sure(mapping)),
        Answer::NoBankSignal(refusal) if refusal.conflicts => {
            "no mapping: some pairs are slow, and no mapping of a memory explains which".to_owned()
        }
        Answer::NoBankSignal(_) => "no bank signal here: no two addresses in turn stand out as slow".to_owned(),
    }
}

fn write_banks(out: &mut String, banks: &Banks) -> fmt::Result {
    writeln!(out, "answer      {}", answer(banks))?;
    for missing in banks.missing() {
        writeln!(out, "not known   {missing}")?;
    }
    let areas = banks.mapping().map_or(&[][..], |mapping| &mapping.areas);
    for area in areas {
        write_area(out, area, areas.len() > 1, banks.report.baseline)?;
    }
    writeln!(out, "\ntried")?;
    let rows: Vec<Vec<String>> = banks.report.attempts.iter().map(attempt_row).collect();
    out.push_str(&table(&["  assumption", "separation", "accesses", "what came of it"], &[1, 2], &rows));
    let effort = banks.report.effort;
    writeln!(
        out,
        "\naccesses    {} timed, in {} questions, for {} decisions",
        effort.accesses, effort.calls, effort.decisions
    )?;
    if let Some((bits, pairs)) = banks.report.least() {
        writeln!(
            out,
            "at least    {bits:.0} bits, which no method can do without; random pairs give them in {pairs:.0}"
        )?;
    }
    write_readings(out, &banks.seen)?;
    let PoolReport { bytes, pieces, known_bits } = banks.pool;
    let known =
        if known_bits < 64 { format!(", of whose addresses {known_bits} bits are known") } else { String::new() };
    writeln!(out, "pool        {} in {}{known}", ByteSize(bytes), count(pieces, "piece"))
}

fn write_readings(out: &mut String, seen: &Seen) -> fmt::Result {
    for (what, times) in [("pairs", &seen.pairs), ("alone", &seen.alone)] {
        if let Some(Quartiles { lower_ticks, median_ticks, upper_ticks, .. }) = Quartiles::of(times) {
            writeln!(out, "{what:<12}{median_ticks} ticks in the middle, half of them {lower_ticks} to {upper_ticks}")?;
        }
    }
    if let Some((difference, ticks)) = seen.slowest(SLOWEST_OFTEN) {
        writeln!(out, "slowest     pairs that differ in bits {}: {ticks} ticks in the middle", bit_list(difference))?;
    }
    Ok(())
}

fn write_area(out: &mut String, area: &Area, several: bool, baseline: f64) -> fmt::Result {
    if several {
        let range = area.pool.envelope();
        writeln!(out, "\narea        {} in {}-{}", ByteSize(area.pool.bytes()), range.start, range.end)?;
    }
    writeln!(out, "\nbank functions (XOR of address bits)")?;
    let rows: Vec<Vec<String>> = area
        .solution
        .functions
        .iter()
        .zip(&area.verification.near_misses)
        .map(|(&mask, rate)| vec![format!("  {}", bit_list(mask)), selects(area, mask).to_owned(), hits(rate)])
        .collect();
    out.push_str(&table(&["  address bits", "selects", "differences in it alone are fast"], &[], &rows));
    let rows: Vec<String> = area.solution.rows().iter().map(|&mask| xor(mask)).collect();
    writeln!(out, "rows        {}", rows.join(" "))?;
    writeln!(out, "covers      address bits {}", bit_list(area.solution.covered))?;
    for part in area.view.cut(&area.pool.envelope()) {
        let interleave = part.interleave.map_or_else(String::new, |interleave| {
            format!(", dealt out over {} channels each {}", interleave.ways, ByteSize(1 << interleave.shift))
        });
        let inside =
            if part.base == part.inside { String::new() } else { format!(", counted from {:#x}", part.inside) };
        writeln!(out, "addresses   {:#x}-{:#x}{inside}{interleave}", part.base, part.base + part.size)?;
    }
    let levels = area.levels;
    writeln!(
        out,
        "levels      conflicts {:.0} ticks, others {:.0} at most, beyond the {:.0} of one address alone; deviation of a sample {:.1}",
        levels.conflict, levels.hit, baseline, levels.sigma
    )?;
    let (verification, all) = (&area.verification, area.verification.all());
    let least = all.at_least().map_or_else(String::new, |share| format!(", so {:.1} % at least", share * 100.0));
    writeln!(
        out,
        "predicted   {} conflicts, {} at random: came true; of all {} predictions {}{least} (95 %)",
        hits(&verification.conflicts),
        hits(&verification.random),
        all.tried,
        all.hits
    )?;
    if let Some(roles) = &area.roles {
        write_roles(out, roles)?;
    }
    if let Some(shift) = area.shift {
        let (bits, Shift { ticks, error, .. }) = (xor(shift.function), shift);
        writeln!(
            out,
            "shift       {bits} shifts the time of other pairs by {ticks:.1} +- {error:.1} ticks (99.9 %): a {SHIFTING}"
        )?;
    }
    Ok(())
}

/// Writes the known facts about the probed machine.
pub(super) fn write_details(out: &mut String, subject: &Subject) -> fmt::Result {
    let memory = match subject {
        Subject::Machine { memory: Some(memory), .. } => memory,
        Subject::Log { of, .. } => return writeln!(out, "recorded    of {of}"),
        Subject::Machine { memory: None, .. } | Subject::Simulated { .. } => return Ok(()),
    };
    writeln!(out, "pages       all of {}", ByteSize(memory.page_bytes))?;
    writeln!(
        out,
        "clock       in steps of {}; a cached line takes {}, a flushed one {}",
        count(memory.clock_quantum_ticks as usize, "tick"),
        memory.cached_ticks,
        memory.flushed_ticks
    )
}

#[cfg(test)]
mod tests {
    use memtint_map::Role;
    use memtint_probe::{Compared, Level, Mapping, Pool, Rate, Report, Roles, Solution, Untold, Verification, View};
    use memtint_units::PhysAddr;
    use serde_json::{Value, json};

    use super::*;

    const CHANNEL: u64 = 1 << 8 | 1 << 13;
    const RANK: u64 = 1 << 14 | 1 << 18;
    const GROUP: u64 = 1 << 15 | 1 << 19 | 1 << 20;
    const BANK: u64 = 1 << 16 | 1 << 22;

    /// What 999 in 1000 leaves, without what is measured.
    fn told(functions: [Role; 4], untold: Option<Untold>) -> Roles {
        Roles {
            functions: [CHANNEL, RANK, GROUP, BANK].into_iter().zip(functions).collect(),
            levels: Vec::new(),
            compared: Vec::new(),
            saturated: None,
            error: 1.0 - 0.999,
            untold,
        }
    }

    fn area(roles: Option<Roles>) -> Area {
        let functions = vec![BANK, GROUP, RANK, CHANNEL];
        let near_misses = vec![Rate { tried: 4, hits: 4 }; functions.len()];
        Area {
            pool: Pool::new([PhysAddr(0)..PhysAddr(1 << 23)], 64).unwrap(),
            view: View::plain(),
            solution: Solution {
                covered: (1 << 23) - (1 << 6),
                tried: Vec::new(),
                functions,
                same_bank: Vec::new(),
                same_row: Vec::new(),
            },
            levels: memtint_probe::Levels { hit: 200.0, conflict: 280.0, sigma: 8.0, shifted: None },
            verification: Verification { near_misses, ..Verification::default() },
            shift: None,
            roles,
        }
    }

    /// What is said of an answer with one area, for people and for programs.
    fn said(roles: Option<Roles>) -> (String, Value) {
        let area = area(roles);
        let pool = area.pool.clone();
        let report = Report {
            answer: Answer::Mapping(Mapping { areas: vec![area], confidence: 0.999 }),
            attempts: Vec::new(),
            tests: Vec::new(),
            effort: memtint_probe::Effort::default(),
            baseline: 190.0,
        };
        let banks = Banks::new(report, Seen::default(), &pool);
        let mut text = String::new();
        write_banks(&mut text, &banks).unwrap();
        (text, serde_json::to_value(banks.report()).unwrap()["areas"][0]["roles"].clone())
    }

    /// Words of the lines that begin so.
    fn lines(text: &str, begin: &str) -> Vec<String> {
        let own = text.lines().filter(|line| line.starts_with(begin));
        own.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
    }

    /// Rows of what functions select.
    fn table(text: &str) -> Vec<String> {
        let (_, behind) = text.split_once("what they select").expect("a table of roles");
        lines(behind.split_once("\nroles ").expect("what it rests on").0, "  ").split_off(1)
    }

    #[test]
    fn each_role_that_is_told_has_its_bits() {
        let roles = [Role::Channel, Role::Rank, Role::BankGroup, Role::Bank];
        let (text, json) = said(Some(told(roles, None)));
        let rows = ["8 13 channel", "14 18 rank", "15 19 20 bank group", "16 22 bank"];
        assert_eq!(table(&text), rows, "{text}");
        assert_eq!(
            lines(&text, "roles "),
            ["roles probability of error at most 0.1 % (assuming independent measurement errors)"]
        );
        let functions = json!([
            { "bits": [8, 13], "role": "channel" },
            { "bits": [14, 18], "role": "rank" },
            { "bits": [15, 19, 20], "role": "bank_group" },
            { "bits": [16, 22], "role": "bank" },
        ]);
        assert_eq!(json["functions"], functions);
        assert!(json.get("untold").is_none() && json.get("saturated").is_none(), "{json}");
    }

    #[test]
    fn an_absent_role_is_unknown() {
        let unknown = Role::Unknown;
        let (text, json) = said(Some(told([Role::Channel, Role::Rank, unknown, unknown], Some(Untold::NoGroups))));
        let rows = ["8 13 channel", "14 18 rank", "15 19 20 unknown", "16 22 unknown"];
        assert_eq!(table(&text), rows, "{text}");
        let why = Untold::NoGroups.to_string();
        assert_eq!(lines(&text, "roles ")[1], format!("roles unknown: {why}"));
        assert_eq!((&json["functions"][3]["role"], &json["untold"]), (&json!("unknown"), &json!(why)));
        // Of none: no table, and no probability that it is wrong.
        let (text, json) = said(Some(told([unknown; 4], Some(Untold::Noisy))));
        assert!(!text.contains("what they select"), "{text}");
        assert_eq!(lines(&text, "roles "), [format!("roles unknown: {}", Untold::Noisy)]);
        assert_eq!(json["functions"].as_array().map(Vec::len), Some(4));
        // There was no oracle to ask.
        let (text, json) = said(None);
        assert!(lines(&text, "roles ").is_empty() && json.is_null(), "{text}{json}");
    }

    #[test]
    fn what_roles_rest_on_is_said() {
        let unknown = Role::Unknown;
        let level = |ticks, changes: &[u64], role| Level { ticks, error: 0.5, changes: changes.to_vec(), role };
        let roles = Roles {
            levels: vec![level(12.0, &[8], Role::Channel), level(40.25, &[0, 1, 2], unknown)],
            compared: vec![
                Compared { function: CHANNEL, shares: [2.0, 1.96], channel: Some(true) },
                Compared { function: RANK, shares: [1.7, 1.4], channel: None },
            ],
            saturated: Some([true, false]),
            ..told([Role::Channel, unknown, unknown, unknown], Some(Untold::NoSpaces))
        };
        let (text, json) = said(Some(roles));
        let together = lines(&text, "together ");
        assert!(
            together[0].contains("12.0 +- 0.5 ticks") && together[0].ends_with("1 change of the bank: another channel")
        );
        assert!(together[1].contains("40.2 +- 0.5 ticks") && together[1].ends_with("3 changes of the bank: unknown"));
        let half = lines(&text, "half ");
        assert!(
            half[0].contains("of 8^13: ")
                && half[0].contains("2.00 times")
                && half[0].ends_with("1.96 times where rows change: a channel")
        );
        assert!(half[1].contains("of 14^18: ") && half[1].ends_with(": not clear"), "{half:?}");
        assert_eq!((&json["levels"][1]["ticks"], &json["levels"][1]["changes"]), (&json!(40.25), &json!(3)));
        assert_eq!(
            json["compared"][0],
            json!({ "function": [8, 13], "open_rows_share": 2.0, "changing_rows_share": 1.96, "channel": true })
        );
        assert!(json["compared"][1].get("channel").is_none());
        assert_eq!(json["saturated"], json!([true, false]));
    }
}
