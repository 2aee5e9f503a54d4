//! What the options of `memtint probe` ask for.

use memtint_probe::session::{Algorithm, LogPart, Request};

use super::ProbeArguments;
use crate::output::Failure;

/// The request of the options.
pub(super) fn of(arguments: &ProbeArguments) -> Request {
    let usual = Request::default();
    let algorithm = arguments.algorithm.map_or(usual.algorithm, Algorithm::from);
    let parts = match (only(arguments), algorithm) {
        (Some(parts), _) => parts,
        (None, Algorithm::Own) => usual.parts,
        (None, _) => vec![LogPart::Dram],
    };
    Request {
        algorithm,
        parts,
        seed: arguments.seed.unwrap_or(usual.seed),
        confidence: arguments.confidence.unwrap_or(usual.confidence),
        shift: arguments.shift,
        banks: arguments.banks,
        repeats: arguments.repeats,
    }
}

fn only(arguments: &ProbeArguments) -> Option<Vec<LogPart>> {
    let parts: Vec<LogPart> = arguments.only.iter().copied().map(LogPart::from).collect();
    (!parts.is_empty()).then(|| LogPart::in_order(&parts))
}

/// Refuses a request that its algorithm cannot serve.
pub(super) fn check(request: &Request) -> Result<(), Failure> {
    let Request { algorithm, parts, banks, .. } = request;
    if *algorithm != Algorithm::Own && *parts != [LogPart::Dram] {
        let (found, algorithm) = (LogPart::list(parts), algorithm.name());
        return Err(Failure::Sentence(format!("--only: {found} found; accepted with --algorithm {algorithm} is dram")));
    }
    if *algorithm == Algorithm::Palloc && !banks.is_some_and(u32::is_power_of_two) {
        let found = banks.map_or_else(|| "nothing".to_owned(), |banks| banks.to_string());
        return Err(Failure::Sentence(format!(
            "--banks: {found} found; accepted with palloc is a power of two from 2 on"
        )));
    }
    Ok(())
}

/// Refuses options that contradict the request of a log.
pub(super) fn agree(arguments: &ProbeArguments, request: &Request, log: &str) -> Result<(), Failure> {
    for (option, recorded) in request.notes() {
        if let Some(given) = given(arguments, option).filter(|given| *given != recorded) {
            return Err(Failure::Sentence(format!(
                "--{option}: {given} found; {log} was recorded with --{option} {recorded}, and --replay accepts that, or nothing"
            )));
        }
    }
    Ok(())
}

/// An option, as a log has it; `None` where it is not given.
fn given(arguments: &ProbeArguments, option: &str) -> Option<String> {
    match option {
        "algorithm" => arguments.algorithm.map(|given| Algorithm::from(given).name().to_owned()),
        "only" => only(arguments).map(|parts| LogPart::list(&parts)),
        "seed" => arguments.seed.map(|given| given.to_string()),
        "confidence" => arguments.confidence.map(|given| given.to_string()),
        "shift" => arguments.shift.then(|| "yes".to_owned()),
        "banks" => arguments.banks.map(|given| given.to_string()),
        "repeats" => arguments.repeats.map(|given| given.to_string()),
        _ => None,
    }
}
