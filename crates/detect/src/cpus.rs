//! CPUs that this program may use.

use memtint_units::IndexSet;

/// Largest number of CPUs that Linux has.
const CPUS_MAX: u32 = 8192;

/// A kernel file without a list of CPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CpuListError {
    /// The file.
    pub path: String,
}

impl std::fmt::Display for CpuListError {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}: has no list of CPUs", self.path)
    }
}

impl std::error::Error for CpuListError {}

/// Gives the CPUs that are online and that this program may use, the first of each core, ascending.
///
/// # Errors
/// [`CpuListError`] where the kernel does not list them.
pub fn usable_cores() -> Result<Vec<u32>, CpuListError> {
    let allowed = allowed()?;
    let online = listed("/sys/devices/system/cpu/online")?;
    let mut firsts = Vec::new();
    for cpu in online.iter().filter(|&cpu| allowed.contains(cpu)) {
        let siblings = listed(&format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"))?;
        if siblings.iter().find(|&other| allowed.contains(other)) == Some(cpu) {
            firsts.push(cpu);
        }
    }
    Ok(firsts)
}

fn allowed() -> Result<IndexSet, CpuListError> {
    const STATUS: &str = "/proc/self/status";
    let status = std::fs::read_to_string(STATUS).unwrap_or_default();
    parsed(STATUS, status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")))
}

fn listed(path: &str) -> Result<IndexSet, CpuListError> {
    parsed(path, std::fs::read_to_string(path).ok().as_deref())
}

fn parsed(path: &str, text: Option<&str>) -> Result<IndexSet, CpuListError> {
    let set = text.and_then(|text| IndexSet::parse(text.trim(), CPUS_MAX).ok());
    set.ok_or_else(|| CpuListError { path: path.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_program_may_use_a_core_and_a_list_is_a_list() {
        let cores = usable_cores().unwrap();
        assert!(!cores.is_empty() && cores.is_sorted(), "{cores:?}");
        assert!(cores.iter().all(|&cpu| allowed().unwrap().contains(cpu)));
        let error = parsed("/some/file", Some("x")).unwrap_err().to_string();
        assert_eq!(error, "/some/file: has no list of CPUs");
        assert!(listed("/nonexistent/list").is_err());
    }
}
