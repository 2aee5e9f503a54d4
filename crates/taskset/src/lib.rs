//! Task-set files: tasks, what delays their core, and how their memory is refreshed.
//!
//! What it is for: everybody who asks about a task set (analysis, simulation, regenerated figures) reads the same file,
//! checked once. Durations carry units and are exact; what is missing, misspelled, out of range or of an unknown key is
//! refused with the file, the place, the field, what was found and what is accepted.
//!
//! What it deliberately does not do: it opens no files, and answers nothing. What one analysis needs beyond a
//! valid file (servers, say) is asked for where the file is turned into its input.
//!
//! ```toml
//! [[task]]
//! name = "lms"
//! period = "20 ms"
//! wcet = "4.5 ms"         # further: deadline, phase, jitter, blocking, priority (1 is the highest), lines
//! ranks = 1               # ranks that its data need; default 1
//! copy = "1.6 us"         # to bring its globals to another instance; default 0
//! globals = "16 KiB"      # for a simulation: what is brought; default: what surely fits into the time
//! program = "refresh/lms" # for a simulation: what a job executes
//! server = "S1"
//! copy_server = "S2"      # the server of another instance, a copy task; default: there is none
//!
//! [memory]                # refresh by software
//! ranks = 8
//! density = 8             # gigabits of a chip, or t_rfc = "350 ns"
//! retention = "64 ms"     # default
//! bursts = "parallel"     # or "serial": the ranks of one color; default parallel
//! lock = "20 us"          # what the two refresh tasks take; default 0
//! unlock = "1 us"
//!
//! [cyclic]                # a cyclic executive; all of it may be left to the analysis
//! frame = "8 ms"
//! color_frame = "8 ms"
//! sharing = "private"     # or "shared"
//! slicing = "free"        # or "whole-frames"
//! slice_cost = "2.789 us"
//! copies_max = 4
//!
//! [[color]]               # ranks that are locked and refreshed together
//! name = "c1"
//! ranks = "0-3"
//! phase = "32 ms"         # default 0
//!
//! [[server]]              # a Colored Refresh Server; the first of a core has the highest priority
//! name = "S1"
//! color = "c1"
//! core = 0                # default
//! period = "4 ms"
//! budget = "2.4 ms"
//! kind = "deferrable"     # or "idle-consuming"; default deferrable
//! scheduling = "edf"      # or "rm", "dm", "fp": inside; default edf
//! ```
//!
//! And what delays a core beside its tasks ([`TaskFile::terms`]): `[refresh]`, `[regulator]`, and one of three tables on the other
//! cores, whose own tasks and regulators are in a list `core` of it:
//!
//! ```toml
//! [refresh]
//! mode = "auto"           # "fgr2", "fgr4", "burst"
//! interval = "7.8 us"
//! duration = "350 ns"
//! reopen = "28 ns"
//!
//! [regulator]             # budgets of memory bandwidth
//! period = "1 ms"
//! lines = 1000            # the budget, B, which the core has for itself
//! line_min = "10 ns"      # shortest time from one line to the next; default 0
//! quantum = 64            # most lines of a grant, q; default 0: one grant that ends with the period
//! skid_events = 16        # most lines beyond a grant, until the core stands still, s; default 0
//! overhead = "2 us"       # what an interrupt takes of the core; default 0
//! kind = "soft"           # donates and reclaims; or "hard"; default hard
//! sharing = "off"         # or "spare": all run when all have used their budgets; default off
//! guaranteed = 16000      # what the memory always serves in a period: B + q + s of all cores are within it
//!
//! [banks]                 # banks of one's own, one request at a time
//! request_delay = "40 ns"
//! private_banks = true
//! requests_at_once_max = 1
//! [[banks.core]]
//! regulator = { period = "1 ms", lines = 1000 }
//!
//! [shared_banks]          # some cores use the same banks
//! request_delay = "40 ns"
//! hit = "10 ns"
//! conflict = "60 ns"
//! overtaking_each_request = 16     # or overtaking_each_row
//! requests_at_once_max = 1
//! sharer = [{ regulator = { period = "1 ms", lines = 1000 } }]
//!
//! [parallel_banks]        # several requests at a time, writes in batches
//! read_delay = "40 ns"
//! write_delay = "30 ns"
//! turn = "20 ns"
//! write_entries = 32
//! drain_at = 26
//! drain_to = 6
//! requests_at_once_max = 10
//! private_banks = true
//! write_back = true
//! core = [{ requests_at_once_max = 10 }]
//! ```
//!
//! Types to know: [`TaskFile`], which [`TaskFile::problem`] and [`TaskFile::system`] turn into what `sched` judges, and
//! `to_string` into text again, with what was found filled in.
//!
//! ```
//! use memtint_taskset::TaskFile;
//!
//! let text = "[[task]]\nname = \"lms\"\nperiod = \"20 ms\"\nwcet = \"4.5 ms\"\nranks = 2\n";
//! let file = TaskFile::parse("lms.toml", text)?;
//! assert_eq!(file.tasks[0].ranks, 2);
//! let error = TaskFile::parse("lms.toml", &text.replace("4.5 ms", "4.5")).unwrap_err().to_string();
//! assert!(error.starts_with("lms.toml: task \"lms\": wcet is \"4.5\"; accepted is a text with a number and its unit"));
//! # Ok::<(), memtint_taskset::TaskFileError>(())
//! ```
#![forbid(unsafe_code)]

mod banks;
mod file;
mod place;
mod problem;
mod refresh;
mod text;

pub use file::{TaskFile, TaskMore};
pub use place::TaskFileError;
pub use refresh::{Color, Cyclic, Inside, Memory, ServerEntry};
