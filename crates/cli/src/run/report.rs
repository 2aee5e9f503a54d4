//! What is said of a run when it has ended.

use memtint_detect::Fit;
use memtint_map::Selection;
use schemars::JsonSchema;
use serde::Serialize;

use crate::guard::Regulation;

/// What `--report` writes.
#[derive(Serialize, JsonSchema)]
pub(super) struct Report<'a> {
    pub(super) schema: u32,
    pub(super) command: Vec<String>,
    pub(super) platform: &'a str,
    pub(super) granule_bytes: u64,
    #[serde(flatten)]
    pub(super) colors: Colors,
    pub(super) mode: &'static str,
    /// How the platform fits the machine.
    pub(super) platform_fit: Fit,
    /// Memory of the machine that is in these colors, about.
    pub(super) colors_bytes: u64,
    /// Of this, what was free when the run began, about.
    pub(super) colors_free_bytes: u64,
    /// Fields of the system file that a run does not consider.
    pub(super) not_considered: Vec<&'static str>,
    /// Fields of the task that nothing enforced.
    pub(super) not_enforced: Vec<&'static str>,
    /// What a regulator has made of the task's bandwidth.
    pub(super) regulation: Option<Regulation>,
    /// Other runs in the same colors, without a system file that allows it.
    pub(super) shared_with: Vec<String>,
    pub(super) prefault_bytes: u64,
    pub(super) exit_status: i32,
    pub(super) signal: Option<i32>,
    #[serde(flatten)]
    pub(super) run: Option<memtint_live::RunReport>,
}

/// What `--dry-run` prints.
#[derive(Serialize, JsonSchema)]
pub(super) struct DryRun {
    /// Version of this form.
    pub(super) schema: u32,
    /// Which report it is: `run-dry-run`.
    pub(super) report: &'static str,
    pub(super) command: Vec<String>,
    pub(super) platform: String,
    #[serde(flatten)]
    pub(super) colors: Colors,
    /// `strict` or `soft`.
    pub(super) mode: &'static str,
    /// Which backend would enforce the colors.
    pub(super) backend: memtint_live::FloorName,
    /// CPUs the program may run on; null: those of the caller.
    pub(super) cores: Option<Vec<u32>>,
    /// The program's user; null: that of the caller.
    pub(super) user: Option<String>,
    /// Each write outside of the program, in words.
    pub(super) writes: Vec<String>,
}

impl DryRun {
    pub(super) fn text(&self, colors: &str) -> String {
        let backend = match self.backend {
            memtint_live::FloorName::User => "the userspace runtime",
            memtint_live::FloorName::Kernel => "the kernel",
        };
        let writes: String = self.writes.iter().map(|line| format!("  {line}\n")).collect();
        format!(
            "would run   {}\ncolors      {colors} of {}, {}\nbackend     {backend}\nwould write\n{writes}",
            self.command.join(" "),
            self.platform,
            self.mode
        )
    }
}

/// The colors a program was given, in list syntax; null is any.
#[derive(Serialize, JsonSchema)]
pub(super) struct Colors {
    pub(super) banks: Option<String>,
    pub(super) sets: Option<String>,
    pub(super) nodes: Option<String>,
}

impl Colors {
    pub(super) fn of(selection: &Selection) -> Colors {
        let text = |set: &Option<memtint_units::IndexSet>| set.as_ref().map(ToString::to_string);
        Colors { banks: text(&selection.banks), sets: text(&selection.sets), nodes: text(&selection.node) }
    }
}
