//! Servers of a scenario.

use super::{Check, Scenario, ScenarioTask, Time};
use crate::error::SimError;
use crate::machine::{ServerConfig, ServerKind, ServerScheduling};
use memtint_units::IndexSet;

/// A server: a budget of time on a core in each period, for the tasks that name it.
///
/// Servers of a core go before its tasks without server, which run in the background: when no server can.
#[derive(Clone, Debug, PartialEq)]
pub struct ScenarioServer {
    /// Its name; unique.
    pub name: String,
    /// Its core.
    pub core: u32,
    /// Between two budgets, more than 0.
    pub period: Time,
    /// Time on the core in each period, more than 0 and at most the period. The part not used by its end is lost.
    pub budget: Time,
    /// When the first period begins; there is no budget before.
    pub phase: Time,
    /// Smaller is more urgent than other servers of this core; default: its place in the file, from 0. Equal ones go by place.
    pub priority: Option<u32>,
    /// `deferrable` keeps its budget while it has nothing to do; `idle-consuming` consumes it, and keeps others off the core.
    pub kind: ServerKind,
    /// `edf` or `fixed-priority`, of the tasks inside, preemptive.
    pub scheduling: ServerScheduling,
    /// Ranks whose lock suspends it, those of all its tasks; default: none, and a lock suspends only tasks with memory there.
    pub ranks: Option<String>,
}

impl Scenario {
    /// The server that a task runs in, and its place in the file; a name that no server has is refused.
    pub(super) fn server_of(&self, task: &ScenarioTask) -> Result<Option<(usize, &ScenarioServer)>, SimError> {
        let Some(name) = &task.server else { return Ok(None) };
        let found = self.spec.servers.iter().enumerate().find(|(_, server)| server.name == *name);
        found.map(Some).ok_or_else(|| {
            let names: Vec<&str> = self.spec.servers.iter().map(|server| server.name.as_str()).collect();
            let accepted = if names.is_empty() { "none, as there is no server".into() } else { names.join(", ") };
            Check { origin: &self.origin }.refuse(&format!("task {:?}: server", task.name), name, accepted)
        })
    }

    pub(super) fn verify_servers(&self, cores: u32) -> Result<(), SimError> {
        let check = Check { origin: &self.origin };
        for (index, server) in self.spec.servers.iter().enumerate() {
            let of = |field: &str| format!("server {:?}: {field}", server.name);
            let first = self.spec.servers.iter().position(|other| other.name == server.name);
            check.that(&of("name"), first == Some(index), "used twice", "a unique name")?;
            check.that(&of("core"), server.core < cores, server.core, format!("0 to {}", cores - 1))?;
            let (period, budget) = (server.period.0, server.budget.0);
            check.that(&of("period"), period.0 > 0, period, "more than 0 ns")?;
            let accepted = format!("more than 0 ns and at most the period, {period}");
            check.that(&of("budget"), budget.0 > 0 && budget <= period, budget, accepted)?;
        }
        for task in &self.spec.tasks {
            let Some((_, server)) = self.server_of(task)? else { continue };
            let of = |field: &str| format!("task {:?}: {field}", task.name);
            check.that(&of("cores"), task.cores.is_none(), "given beside server", "one of the two")?;
            let core = task.core.unwrap_or(server.core);
            check.that(&of("cores"), core == server.core, core, format!("{}, that of its server", server.core))?;
        }
        Ok(())
    }

    /// Ranks whose lock suspends a server, out of `ranks`, one bit each.
    pub(super) fn ranks_of_server(&self, server: &ScenarioServer, ranks: u32) -> Result<Option<u64>, SimError> {
        let check = Check { origin: &self.origin };
        let Some(text) = &server.ranks else { return Ok(None) };
        let set = IndexSet::parse(text, ranks)
            .map_err(|error| check.refuse(&format!("server {:?}: ranks", server.name), text, error))?;
        Ok(Some(set.iter().fold(0, |mask, rank| mask | 1 << rank)))
    }

    /// The servers, on channels with `ranks` ranks.
    pub(super) fn servers(&self, ranks: u32) -> Result<Vec<ServerConfig>, SimError> {
        let config = |(index, server): (usize, &ScenarioServer)| {
            Ok(ServerConfig {
                core: server.core as usize,
                period: server.period.0,
                budget: server.budget.0,
                phase: server.phase.0,
                priority: server.priority.unwrap_or(index as u32),
                kind: server.kind,
                scheduling: server.scheduling,
                ranks: self.ranks_of_server(server, ranks)?.unwrap_or(0),
            })
        };
        self.spec.servers.iter().enumerate().map(config).collect()
    }
}
