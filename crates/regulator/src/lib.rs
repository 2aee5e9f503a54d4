//! Memory-bandwidth regulation of this machine, from user space: MemGuard's algorithm ([`memtint_guard`]) on performance counters,
//! with the cgroup freezer as its brake.
//!
//! ```text
//! in the kernel      BPF programs ask memtint_guard's counterpart in C what to do at each overflow and period start  (module bpf);
//!                    an attendant per regulated CPU, SCHED_FIFO, pinned, stops groups and lets them run       (module attendant)
//! in threads         where there is no BPF: a regulator thread per regulated CPU asks memtint_guard itself    (modules cpu, seat)
//! either             a counter for each group on this CPU; the thread occupies the CPU until a throttled group is frozen
//! freezer            one thread per group, on its CPUs, of higher priority: writes cgroup.freeze, which may sleep (module freezer)
//! or in a module     of the kernel, for whole CPUs: one thread copies its sums and reports its incidents         (module module)
//! members            one thread reports processes that were moved out of their groups                             (module members)
//! guardian           a process: thaws all groups when the regulator has ended, however it ended                  (module guardian)
//! ```
//!
//! **The bound.** Between two period starts on a CPU, a group uses at most its grants plus a quantum q and a skid s.
//! Grants add up to the budgets B. [`Regulator::snapshot`] reports whether each period kept this bound, and
//! [`Incident`] why one did not. The bound holds because of the order: the thread that occupies the CPU never sleeps,
//! so the group cannot run before its freezer has written.
//!
//! Regulation does not cover memory traffic of devices or traffic that the sensor's event omits ([`Sensor::blind`]).
//! Sound budgets are determined by `memtint guard rmin` and [`memtint_guard::Config::check`].
//!
//! Types to know: [`Settings`] is checked by [`Regulator::start`]; [`Sensor`] names the counted event; [`self_test()`]
//! shows that regulation works on this machine before anything depends on it.
#![cfg(target_os = "linux")]

mod attendant;
mod bpf;
mod cgroup;
mod companion;
mod counter;
mod cpu;
mod error;
mod freezer;
mod guardian;
mod load;
mod members;
mod module;
mod monitor;
mod promise;
mod regulator;
mod seat;
mod self_test;
mod sensor;
mod settings;
mod sys;

pub use cgroup::{Cgroup, CgroupRoot};
pub use companion::{become_companion, stay_on, thread_time, watch_closely};
pub use counter::check_counter;
pub use error::RegulatorError;
pub use freezer::FreezerCost;
pub use guardian::guard as run_guardian;
pub use load::{Load, run as run_load};
pub use members::process_start;
pub use monitor::{Monitor, Reading, Traffic};
pub use promise::{Cause, Incident, Snapshot};
pub use regulator::{ProgramStatistics, Programs, Regulator};
pub use self_test::{Seen, Tested, self_test};
pub use sensor::{Event, Sensor};
pub use settings::{Backend, GroupSettings, Place, Settings, online_cpus};
pub use sys::now_ns;
