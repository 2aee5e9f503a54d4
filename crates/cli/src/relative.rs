//! Relative lists of CPUs and nodes on the command line, as numactl(8) has them: `+0-1` are the first two that the caller may use.
//!
//! Files have none: a file must mean the same wherever it is read.

use memtint_units::{IndexList, IndexSet};

/// The largest number of CPUs or nodes that Linux has.
const LIMIT: u32 = 8192;

/// Reads a list of CPUs; a relative one counts those on which the caller may run.
pub(crate) fn cpus(text: &str) -> Result<IndexList, String> {
    list(text, "Cpus_allowed_list:")
}

/// Reads a list of NUMA nodes; a relative one counts those from which the caller may get memory.
pub(crate) fn nodes(text: &str) -> Result<IndexList, String> {
    list(text, "Mems_allowed_list:")
}

fn list(text: &str, line: &str) -> Result<IndexList, String> {
    let Some(relative) = text.trim_start().strip_prefix('+') else {
        return text.parse().map_err(|error: memtint_units::ListError| error.to_string());
    };
    const STATUS: &str = "/proc/self/status";
    let status = std::fs::read_to_string(STATUS).map_err(|error| format!("{STATUS}: {error}"))?;
    let allowed = status.lines().find_map(|found| found.strip_prefix(line));
    let allowed = allowed.and_then(|list| IndexSet::parse(list.trim(), LIMIT).ok());
    among(relative, &allowed.ok_or_else(|| format!("{STATUS} has no {line}"))?)
}

/// Gives the members of `allowed` that a list counts, from 0.
fn among(relative: &str, allowed: &IndexSet) -> Result<IndexList, String> {
    let allowed: Vec<u32> = allowed.iter().collect();
    let chosen = IndexSet::parse(relative, allowed.len() as u32)
        .map_err(|error| format!("\"+{relative}\" counts the {} that the caller may use: {error}", allowed.len()))?;
    let numbers: Vec<String> = chosen.iter().map(|index| allowed[index as usize].to_string()).collect();
    let text = if numbers.is_empty() { "none".to_owned() } else { numbers.join(",") };
    text.parse().map_err(|error: memtint_units::ListError| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relative_lists_count_what_the_caller_may_use() {
        let allowed = IndexSet::parse("2-3,8-9", LIMIT).unwrap();
        let among = |text: &str| among(text, &allowed).map(|list| list.to_string());
        assert_eq!(among("0-1").unwrap(), "2-3");
        assert_eq!(among("1-2").unwrap(), "3,8");
        assert_eq!(among("!0").unwrap(), "3,8-9");
        assert_eq!(among("all").unwrap(), "2-3,8-9");
        assert!(among("4").unwrap_err().starts_with("\"+4\" counts the 4 that the caller may use: "));
        assert!(among("+0").is_err() && among("").is_err());
    }

    #[test]
    fn plain_lists_stay_as_they_are() {
        assert_eq!(cpus("0-3,8").unwrap().to_string(), "0-3,8");
        assert_eq!(nodes("!0").unwrap(), "!0".parse().unwrap());
        assert!(cpus("x").unwrap_err().contains("found"));
        // There is at least one of each.
        assert!(matches!((cpus("+0").unwrap(), nodes("+0").unwrap()), (IndexList::Only(_), IndexList::Only(_))));
    }
}
