//! Fields of a system file that schemes have no use for.

use memtint_analysis::Inside;
use memtint_system::{ServerPolicy, SystemFile, Verb, used};

use crate::scheme::Scheme;

/// Gives the fields of a file that mean nothing for any of these schemes, of those that a simulation of refresh reads; `order` is the
/// scheduling policy where there are neither servers nor a table.
#[must_use]
pub fn unused(file: &SystemFile, schemes: &[Scheme], order: Inside) -> Vec<&'static str> {
    let fixed = |policy: &Option<ServerPolicy>| *policy == Some(ServerPolicy::Fp);
    let reads = |scheme: Scheme, field: &str| match field {
        "cyclic" => scheme == Scheme::ColoredRefresh,
        "color" | "server" | "task.server" | "task.copy_server" => scheme == Scheme::Crs,
        "task.copy" | "task.globals" => matches!(scheme, Scheme::ColoredRefresh | Scheme::Crs),
        "task.priority" => match scheme {
            Scheme::Crs => file.servers.iter().any(|server| fixed(&server.scheduling)),
            Scheme::ColoredRefresh => false,
            _ => order == Inside::Given,
        },
        _ => true,
    };
    let mut given = used(file, Verb::RefreshSimulate);
    given.retain(|field| !schemes.iter().any(|&scheme| reads(scheme, field)));
    given
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_priority_is_used_by_fixed_priorities_and_a_server_by_servers() {
        let text = "[[server]]\nname = \"S\"\nbudget = \"1 ms\"\nperiod = \"2 ms\"\n\
                    [[task]]\nname = \"a\"\nperiod = \"20 ms\"\nwcet = \"1 ms\"\npriority = 1\nserver = \"S\"\n";
        let file = SystemFile::parse(text, "f").unwrap();
        assert_eq!(unused(&file, &[Scheme::Auto], Inside::Given), ["server", "task.server"]);
        assert_eq!(unused(&file, &[Scheme::Crs], Inside::Given), ["task.priority"]);
        assert_eq!(unused(&file, &[Scheme::Auto, Scheme::Crs], Inside::Edf), ["task.priority"]);
        assert!(unused(&file, &[Scheme::Auto, Scheme::Crs], Inside::Given).is_empty());
    }
}
