//! A file as text again.

use std::fmt::{self, Display, Write as _};

use memtint_sched::RankOrder;
use memtint_sched::crs::Kind;
use memtint_sched::cyclic::{Sharing, Slicing};
use memtint_units::{IndexSet, Picoseconds};
use toml::Value;

use crate::file::TaskFile;
use crate::refresh::{Color, Cyclic, Inside, Memory, ServerEntry};

/// Lines `key = value` that are no defaults.
struct Lines(String);

impl Lines {
    fn line(&mut self, key: &str, value: impl Display) {
        // Writing to a String does not fail.
        let _ = writeln!(self.0, "{key} = {value}");
    }

    fn text(&mut self, key: &str, value: &str) {
        self.line(key, Value::String(value.to_owned()));
    }

    fn time(&mut self, key: &str, span: Picoseconds) {
        self.text(key, &span.to_string());
    }

    fn time_if(&mut self, key: &str, span: Picoseconds) {
        if span.0 > 0 {
            self.time(key, span);
        }
    }

    fn table(&mut self, head: &str) {
        let gap = if self.0.is_empty() { "" } else { "\n" };
        let _ = writeln!(self.0, "{gap}{head}");
    }
}

/// Writes a file that is read as the same: tasks, what delays their core (as it was read), memory, `[cyclic]`, colors and servers.
/// Defaults are left out, and comments are lost.
impl fmt::Display for TaskFile {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lines = Lines(String::new());
        for index in 0..self.tasks.len() {
            self.write_task(index, &mut lines);
        }
        if !self.delays.is_empty() {
            let _ = write!(lines.0, "\n{}", self.delays);
        }
        if let Some(memory) = &self.memory {
            memory.write(&mut lines);
        }
        if self.cyclic != Cyclic::default() {
            self.cyclic.write(&mut lines);
        }
        for color in &self.colors {
            color.write(self.memory.map_or(0, |memory| memory.ranks), &mut lines);
        }
        for server in &self.servers {
            server.write(&self.colors, &mut lines);
        }
        out.write_str(&lines.0)
    }
}

impl TaskFile {
    fn write_task(&self, index: usize, lines: &mut Lines) {
        let (task, more) = (&self.set.tasks()[index], &self.tasks[index]);
        lines.table("[[task]]");
        lines.text("name", task.name());
        lines.time("period", task.period());
        lines.time("wcet", task.wcet());
        if task.deadline() != task.period() {
            lines.time("deadline", task.deadline());
        }
        for (key, span) in [("phase", task.phase()), ("jitter", task.jitter()), ("blocking", task.blocking())] {
            lines.time_if(key, span);
        }
        if let Some(priority) = more.priority {
            lines.line("priority", priority);
        }
        if task.lines() > 0 {
            lines.line("lines", task.lines());
        }
        if more.ranks != 1 {
            lines.line("ranks", more.ranks);
        }
        lines.time_if("copy", more.copy);
        if let Some(globals) = more.globals {
            lines.text("globals", &globals.to_string());
        }
        if let Some(program) = &more.program {
            lines.text("program", program);
        }
        for (key, server) in [("server", more.server), ("copy_server", more.copy_server)] {
            if let Some(server) = server {
                lines.text(key, &self.servers[server].name);
            }
        }
    }
}

impl Memory {
    fn write(&self, lines: &mut Lines) {
        lines.table("[memory]");
        lines.line("ranks", self.ranks);
        match self.density {
            Some(density) => lines.line("density", density.gigabits()),
            None => lines.time("t_rfc", self.t_rfc),
        }
        lines.time("retention", self.retention);
        if self.bursts == RankOrder::Serial {
            lines.text("bursts", "serial");
        }
        lines.time_if("lock", self.lock);
        lines.time_if("unlock", self.unlock);
    }
}

impl Cyclic {
    fn write(&self, lines: &mut Lines) {
        lines.table("[cyclic]");
        for (key, span) in [("frame", self.frame), ("color_frame", self.color_frame)] {
            if let Some(span) = span {
                lines.time(key, span);
            }
        }
        if self.sharing == Sharing::Shared {
            lines.text("sharing", "shared");
        }
        if self.slicing == Slicing::WholeFrames {
            lines.text("slicing", "whole-frames");
        }
        lines.time_if("slice_cost", self.slice_cost);
        if let Some(most) = self.copies_max {
            lines.line("copies_max", most);
        }
    }
}

impl Color {
    fn write(&self, ranks: u32, lines: &mut Lines) {
        lines.table("[[color]]");
        lines.text("name", &self.name);
        let own = IndexSet::from_indices(self.ranks.iter().copied(), ranks);
        lines.text("ranks", &own.map_or_else(|_| format!("{:?}", self.ranks), |own| own.to_string()));
        lines.time_if("phase", self.phase);
    }
}

impl ServerEntry {
    fn write(&self, colors: &[Color], lines: &mut Lines) {
        lines.table("[[server]]");
        lines.text("name", &self.name);
        lines.text("color", &colors[self.color].name);
        if self.core > 0 {
            lines.line("core", self.core);
        }
        lines.time("period", self.period);
        lines.time("budget", self.budget);
        if self.kind == Kind::IdleConsuming {
            lines.text("kind", "idle-consuming");
        }
        let inside = match self.inside {
            Inside::Edf => return,
            Inside::RateMonotonic => "rm",
            Inside::DeadlineMonotonic => "dm",
            Inside::Given => "fp",
        };
        lines.text("scheduling", inside);
    }
}
