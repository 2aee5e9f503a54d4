//! What a probe found of the last-level cache, in words.

use std::fmt::{self, Write as _};

use memtint_probe::cache::{CacheAnswer, CacheLevels, CacheReport, LastLevel, NotLinear, Slice};
use memtint_probe::session::{Caches, bit_list, xor};

/// Published hashes that are shown beside the machine's, at most.
const SCORES_SHOWN: usize = 3;

/// Writes what came of looking for the index.
pub(super) fn write(out: &mut String, caches: &Caches) -> fmt::Result {
    let report = match caches {
        Caches::NotAsked(why) => return writeln!(out, "last level  not looked at: {why}"),
        Caches::Probed(report) => report,
    };
    match &report.answer {
        CacheAnswer::Found(_) => writeln!(out, "last level  found, {}", sure(report))?,
        CacheAnswer::Partial(_, why) => {
            writeln!(out, "last level  a part of it, {}", sure(report))?;
            writeln!(out, "not known   {why}")?;
        }
        CacheAnswer::Nothing(why) => writeln!(out, "last level  no signal here: {why}")?,
    }
    if let Some(last) = caches.found() {
        write_last(out, last)?;
    }
    match &report.congruence {
        Some(Ok(linear)) => {
            let [congruent, apart] = linear.verified;
            writeln!(
                out,
                "predicted   {congruent} pairs of one set, {apart} of two: all came true; covers address bits {}",
                bit_list(linear.covered)
            )?;
        }
        Some(Err(NotLinear::Moves { elsewhere, at_home })) => {
            writeln!(
                out,
                "not linear  lines of one set evict {at_home} times where they were found, and {elsewhere} times elsewhere"
            )?;
        }
        Some(Err(_)) | None => {}
    }
    for score in report.scores.iter().take(SCORES_SHOWN) {
        writeln!(out, "published   {}: {} of {} pairs agree", score.id, score.agreeing, score.compared)?;
    }
    let CacheLevels { near, hit, memory, .. } = report.levels;
    writeln!(
        out,
        "levels      a line just read {near:.0} ticks, pushed out of private caches {hit:.0}, from memory {memory:.0}"
    )?;
    if hit <= near {
        writeln!(
            out,
            "            as many lines as twice the ways of the private caches, as the machine names them, do not push one out"
        )?;
    }
    let effort = report.effort;
    writeln!(out, "accesses    {}, {} of them timed, for {} decisions", effort.accesses, effort.timed, effort.decisions)
}

fn write_last(out: &mut String, last: &LastLevel) -> fmt::Result {
    let set_mask = last.set_bits.iter().fold(0, |mask, bit| mask | 1u64 << bit);
    writeln!(out, "geometry    {} ways, lines of {} bytes", last.ways, last.line)?;
    writeln!(out, "set bits    {}", bit_list(set_mask))?;
    match &last.slice {
        Slice::Functions(functions) if functions.is_empty() => writeln!(out, "slices      1")?,
        Slice::Functions(functions) => {
            let functions: Vec<String> = functions.iter().map(|&mask| xor(mask)).collect();
            writeln!(out, "slices      {}: {}", 1u64 << functions.len(), functions.join(" "))?;
        }
        Slice::Known(hashes) => {
            let names: Vec<&str> = hashes.iter().map(|hash| hash.id.as_str()).collect();
            writeln!(out, "slices      {}, by the published hash {}", hashes[0].slices, names.join(", or "))?;
        }
        Slice::Unknown => writeln!(out, "slices      not known")?,
    }
    writeln!(out, "set colors  {} of pages", last.page_colors())
}

fn sure(report: &CacheReport) -> String {
    // Never more than what was computed.
    let share = (report.confidence() * 1e6).floor() / 1e4;
    format!("confidence at least {share:.4} % (assuming independent measurement errors)")
}
