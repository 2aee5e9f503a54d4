//! A running regulator.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::{File, TryLockError};
use std::io::{Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use memtint_guard::{Core, Ewma, Reservation, parts};

use crate::attendant::{Attended, CpuAttendant};
use crate::bpf::{self, Kernel};
use crate::cgroup::{Cgroup, CgroupRoot};
use crate::counter::Counter;
use crate::cpu::{CpuRegulator, Work};
use crate::error::RegulatorError;
use crate::freezer::{Freezer, FreezerCost, STACK_BYTES};
use crate::guardian::Guardian;
use crate::members::{Members, Watch};
use crate::module::{Follower, Module};
use crate::promise::{Cause, Incident, Snapshot, Sums};
use crate::seat::{Bell, Common, Seat};
use crate::settings::{Backend, GroupSettings, Place, Settings, online_cpus};
use crate::sys::{self, EventCode};

/// How to run the helper processes: a program, and the arguments with which it calls [`crate::run_guardian`] and
/// [`crate::run_load`] (the latter takes the name of the load, a CPU, and a time in milliseconds as well).
#[derive(Clone, Debug)]
pub struct Programs {
    /// The program.
    pub program: PathBuf,
    /// Arguments of the guardian.
    pub guardian: Vec<OsString>,
    /// Arguments of a load.
    pub load: Vec<OsString>,
}

impl Programs {
    fn guardian(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.guardian);
        command
    }
}

/// While it lives, the kernel takes the time of every BPF program of the machine, which makes each a little slower.
#[derive(Debug)]
pub struct ProgramStatistics {
    _on: OwnedFd,
}

impl ProgramStatistics {
    /// Switches them on; `None` where the kernel refuses.
    pub fn begin() -> Option<ProgramStatistics> {
        aya::sys::enable_stats(aya::sys::Stats::RunTime).ok().map(|on| ProgramStatistics { _on: on })
    }
}

/// Where it is decided which group runs.
#[derive(Debug)]
enum Decider {
    Threads,
    Programs(Arc<Kernel>),
    Module(Arc<Module>),
}

impl Decider {
    fn programs(&self) -> Option<&Arc<Kernel>> {
        match self {
            Decider::Programs(kernel) => Some(kernel),
            _ => None,
        }
    }
}

/// Real-time priorities: a freezer at once preempts the regulator thread that requests it, on the same CPU.
const REGULATOR_PRIORITY: i32 = 98;
const FREEZER_PRIORITY: i32 = 99;

/// Regulates until it is dropped.
#[derive(Debug)]
pub struct Regulator {
    settings: Settings,
    programs: Programs,
    seats: Vec<(usize, usize)>,
    // Threads end first, then the freezers with `common`, then the guardian leaves the groups.
    threads: Vec<JoinHandle<()>>,
    works: Vec<(usize, Arc<Work>)>,
    common: Arc<Common>,
    /// `None` where nothing would be left behind.
    guardian: Option<Guardian>,
    looked_outside: Option<Instant>,
    /// Of the cgroups, and the CPUs that were online at the start.
    inodes: Vec<Option<u64>>,
    online: Vec<usize>,
    decider: Decider,
    not_in_kernel: Option<String>,
    _lock: File,
}

impl Regulator {
    /// Checks the settings, creates the groups, and regulates from now on.
    ///
    /// # Errors
    /// [`RegulatorError`]; nothing is left behind then.
    pub fn start(settings: Settings, programs: Programs) -> Result<Regulator, RegulatorError> {
        settings.check()?;
        let auto = settings.backend == Backend::Auto;
        let decider = match settings.backend {
            Backend::Threads => Ok(Decider::Threads),
            Backend::Kernel => Module::open().map(|module| Decider::Module(Arc::new(module))),
            Backend::Bpf | Backend::Auto => Kernel::load().map(|kernel| Decider::Programs(Arc::new(kernel))),
        };
        let started =
            decider.and_then(|decider| Regulator::start_with(settings.clone(), programs.clone(), decider, None));
        match started {
            Err(error @ RegulatorError::Bpf { .. }) if auto => {
                Regulator::start_with(settings, programs, Decider::Threads, Some(error.to_string()))
            }
            other => other,
        }
    }

    /// Whether BPF programs can decide here.
    ///
    /// # Errors
    /// [`RegulatorError::Bpf`]: why not.
    pub fn kernel_can_decide() -> Result<(), RegulatorError> {
        Kernel::load().map(drop)
    }

    fn start_with(
        settings: Settings,
        programs: Programs,
        decider: Decider,
        not_in_kernel: Option<String>,
    ) -> Result<Regulator, RegulatorError> {
        let lock = lock_machine()?;
        let root = CgroupRoot::find().ok();
        if let Some(root) = &root {
            root.remove_leftovers();
        }
        sys::ignore_stops();
        sys::lock_memory().map_err(RegulatorError::Lock)?;
        let groups = settings.groups.iter().filter_map(|group| match &group.place {
            Place::Cgroup(cgroup) => Some(cgroup),
            Place::Cpus => None,
        });
        let groups: Vec<&Cgroup> = groups.collect();
        // Before there is anything to leave behind.
        let guardian = match decider {
            // The kernel ends it with this process.
            Decider::Module(_) => None,
            _ => Some(Guardian::start(programs.guardian(), root.as_ref(), &groups, &lock)?),
        };
        groups.iter().try_for_each(|group| group.create())?;
        let online = online_cpus()?;
        let freezers = settings.groups.iter().map(freezer).collect::<Result<Vec<_>, _>>()?;
        let config = settings.config();
        let (shared, cores) = parts::<AtomicU64, Ewma>(&config, |_| Ewma::new(EWMA_SHIFT))?;
        let seats = settings.seats();
        let mut cpus: Vec<usize> = seats.iter().map(|(_, cpu)| *cpu).collect();
        cpus.sort_unstable();
        cpus.dedup();
        let failed = RegulatorError::Thread;
        let bell = || Ok(Bell { rung: AtomicBool::new(false), fd: sys::event_fd().map_err(failed)? });
        let common = Arc::new(Common {
            shared,
            period_ns: settings.period.as_nanos() as u64,
            start_ns: AtomicU64::new(0),
            freezers,
            sums: seats.iter().map(|_| Sums::default()).collect(),
            bells: cpus.iter().map(|_| bell()).collect::<Result<_, RegulatorError>>()?,
            incidents: Mutex::new(VecDeque::new()),
            left: Mutex::new(VecDeque::new()),
            ended: sys::event_fd().map_err(failed)?,
            alarm: sys::event_fd().map_err(failed)?,
            stop: AtomicBool::new(false),
            begun: AtomicUsize::new(0),
        });
        if let Decider::Programs(kernel) = &decider {
            kernel.set_up(&config, EWMA_SHIFT)?;
        }
        let mut regulator = Regulator {
            decider,
            not_in_kernel,
            looked_outside: None,
            inodes: settings.groups.iter().map(inode).collect(),
            settings,
            programs,
            seats,
            threads: Vec::new(),
            works: Vec::new(),
            common,
            guardian,
            online,
            _lock: lock,
        };
        match &regulator.decider {
            Decider::Module(module) => {
                let module = Arc::clone(module);
                regulator.start_module(module)?;
            }
            _ => regulator.start_threads(&cpus, cores)?,
        }
        if let Some(root) = &root {
            regulator.watch_members(root)?;
        }
        Ok(regulator)
    }

    /// Starts the module, and the thread that copies its sums. Returns when the first period has begun.
    fn start_module(&mut self, module: Arc<Module>) -> Result<(), RegulatorError> {
        module.start(&self.settings)?;
        self.works = self.seats.iter().map(|(_, cpu)| (*cpu, Arc::new(Work::default()))).collect();
        let follower = Follower {
            module: Arc::clone(&module),
            common: Arc::clone(&self.common),
            seats: self.seats.clone(),
            works: self.works.clone(),
        };
        let thread = std::thread::Builder::new().name("follower".to_owned()).spawn(move || follower.run());
        self.threads.push(thread.map_err(RegulatorError::Thread)?);
        while module.read()?.period == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// Starts a thread for each CPU; lets them go when all have their counters.
    fn start_threads(&mut self, cpus: &[usize], cores: Vec<Core<Ewma>>) -> Result<(), RegulatorError> {
        let mut cores: Vec<Option<Core<Ewma>>> = cores.into_iter().map(Some).collect();
        let mut starts = Vec::new();
        for (bell, &cpu) in cpus.iter().enumerate() {
            let mut places = Vec::new();
            for (index, &(group, at)) in self.seats.iter().enumerate() {
                if let Some(core) = cores[index].take_if(|_| at == cpu) {
                    places.push(self.opening(index, group, core)?);
                }
            }
            let (common, work) = (Arc::clone(&self.common), Arc::new(Work::default()));
            let kernel = self.decider.programs().cloned();
            self.works.push((cpu, Arc::clone(&work)));
            let (ready, prepared) = mpsc::channel();
            let (go, begin) = mpsc::channel();
            let thread = std::thread::Builder::new()
                .name(format!("regulator {cpu}"))
                .stack_size(STACK_BYTES)
                .spawn(move || regulate((cpu, bell), places, (common, kernel, work), &ready, &begin))
                .map_err(RegulatorError::Thread)?;
            self.threads.push(thread);
            starts.push((prepared, go));
        }
        for (prepared, _) in &starts {
            prepared.recv().map_err(|_| RegulatorError::Thread(std::io::Error::other("the thread has ended")))??;
        }
        // Far enough in the future that all threads wait for it.
        let start_ns = sys::now_ns() + START_NS;
        self.common.start_ns.store(start_ns, Ordering::Release);
        if let Some(kernel) = self.decider.programs() {
            kernel.set_clock(start_ns, self.common.period_ns);
        }
        for (_, go) in starts {
            // A thread that has ended is seen by `has_ended`.
            let _ = go.send(());
        }
        // Nothing is regulated before the first period has begun on all CPUs.
        while self.common.begun.load(Ordering::Acquire) < cpus.len() && !self.common.stop.load(Ordering::Acquire) {
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// Starts the thread that reports processes that have left.
    fn watch_members(&mut self, root: &CgroupRoot) -> Result<(), RegulatorError> {
        let groups = self.settings.groups.iter().enumerate().filter_map(|(group, settings)| match &settings.place {
            Place::Cgroup(cgroup) => Some((group, Members::of(cgroup, root))),
            Place::Cpus => None,
        });
        let members = groups.map(|(group, members)| {
            let seat = self.seats.iter().position(|(of, _)| *of == group).expect("a group is on a CPU");
            (seat, self.seats[seat], members)
        });
        let (common, kernel) = (Arc::clone(&self.common), self.decider.programs().cloned());
        let watch = Watch { members: members.collect(), common, kernel };
        if !watch.members.is_empty() {
            let thread = std::thread::Builder::new().name("members".to_owned()).spawn(move || watch.run());
            self.threads.push(thread.map_err(RegulatorError::Thread)?);
        }
        Ok(())
    }

    /// Gives a group another reservation, which is below its own. Returns when it is in force on all CPUs.
    pub(crate) fn reserve(&self, group: usize, reservation: Reservation) {
        let from = match &self.decider {
            Decider::Module(module) => {
                let from = self.period().wrapping_add(CHANGE_AHEAD + (CHANGE_NS / self.common.period_ns) as u32);
                // A refusal of the module, or there is no memory: the old reservation is in force.
                if module.reserve(group, reservation).is_err() {
                    self.common.stop.store(true, Ordering::Release);
                }
                from
            }
            _ => self.reserve_soon(group, reservation),
        };
        // The period before it has ended on all CPUs one period later.
        let passed = || self.period().wrapping_sub(from) as i32 > 1;
        while !passed() && !self.common.stop.load(Ordering::Acquire) {
            std::thread::sleep(self.settings.period);
        }
    }

    /// Returns the period from which on it is in force.
    fn reserve_soon(&self, group: usize, reservation: Reservation) -> u32 {
        let ahead = (CHANGE_NS / self.common.period_ns).max(3) as u32;
        // Not interrupted by ordinary tasks between two instructions. Without the priority that is only more likely.
        let _ = sys::set_fifo(CHANGE_PRIORITY);
        let from = self.period().wrapping_add(ahead);
        match self.decider.programs() {
            None => self.common.shared.set_reservation(group, from, reservation),
            Some(kernel) => {
                let seat = self.seats.iter().position(|(of, _)| *of == group).expect("a group is on a CPU");
                // It was late by all of CHANGE_NS, or there is no memory: the old reservation is in force.
                if kernel.command(seat, bpf::Command::reserve(from, reservation)).is_err() {
                    self.common.stop.store(true, Ordering::Release);
                }
            }
        }
        let _ = sys::set_ordinary();
        from
    }

    fn opening(&self, index: usize, group: usize, core: Core<Ewma>) -> Result<Opening, RegulatorError> {
        let settings = &self.settings.groups[group];
        let folder = match &settings.place {
            Place::Cgroup(cgroup) => Some(cgroup.open()?),
            Place::Cpus => None,
        };
        let slack = (settings.quantum.into(), self.settings.sensor.skid.into());
        Ok(Opening { index, group, core, folder, code: self.settings.sensor.code(), slack })
    }

    /// Waits until snapshots have all that was used before the call.
    pub(crate) fn await_accounts(&self) {
        // All events are counted, their period ends, and it is taken note of.
        self.await_looks();
        let period = self.period();
        while self.period().wrapping_sub(period) < 2 && !self.is_stopped() {
            std::thread::sleep(self.settings.period);
        }
        self.await_looks();
    }

    fn await_looks(&self) {
        for (_, work) in &self.works {
            let looks = || work.looks.load(Ordering::Acquire);
            let before = looks();
            // The look under way may have begun earlier.
            while looks() < before + 2 && !self.is_stopped() {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }

    /// The latest period.
    fn period(&self) -> u32 {
        match &self.decider {
            Decider::Threads => self.common.shared.period(),
            Decider::Programs(kernel) => kernel.latest(),
            // A module that does not answer ends the regulation in its follower.
            Decider::Module(module) => module.read().map_or(0, |reading| reading.period),
        }
    }

    /// Where it is decided which group runs: [`Backend::Auto`] never.
    pub fn backend(&self) -> Backend {
        match self.decider {
            Decider::Threads => Backend::Threads,
            Decider::Programs(_) => Backend::Bpf,
            Decider::Module(_) => Backend::Kernel,
        }
    }

    /// Why BPF programs do not decide, if that was tried.
    pub fn not_in_kernel(&self) -> Option<&str> {
        self.not_in_kernel.as_deref()
    }

    /// The regulated system.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// How helper processes are run.
    pub(crate) fn programs(&self) -> &Programs {
        &self.programs
    }

    /// The sums of each group on each CPU since the start.
    pub fn snapshot(&self) -> Vec<Snapshot> {
        let of = |(index, &(group, cpu)): (usize, &(usize, usize))| self.common.sums[index].snapshot(group, cpu);
        self.seats.iter().enumerate().map(of).collect()
    }

    /// The time of the machine (CLOCK_MONOTONIC) up to which snapshots from now on have all periods that have ended, on all CPUs.
    pub fn accounted(&self) -> Duration {
        let looked = self.works.iter().map(|(_, work)| work.looked_ns.load(Ordering::Acquire)).min();
        Duration::from_nanos(looked.unwrap_or(0))
    }

    /// Takes the incidents since the last call; at most 256 of a kind are kept.
    pub fn take_incidents(&self) -> Vec<Incident> {
        sys::clear(self.common.alarm.as_fd());
        let lists = [&self.common.incidents, &self.common.left];
        let take = |list: &Mutex<VecDeque<Incident>>| {
            std::mem::take(&mut *list.lock().unwrap_or_else(PoisonError::into_inner))
        };
        lists.into_iter().flat_map(take).collect()
    }

    /// A descriptor that can be read while there are incidents to take.
    pub fn alarm(&self) -> BorrowedFd<'_> {
        self.common.alarm.as_fd()
    }

    /// Waits for an incident, at most for `time`.
    pub fn wait(&self, time: Duration) {
        use std::os::fd::AsRawFd as _;
        let mut fds = [libc::pollfd { fd: self.alarm().as_raw_fd(), events: libc::POLLIN, revents: 0 }];
        // Too early is as good as in time.
        let _ = sys::wait_readable(&mut fds, Some(time));
    }

    /// For each regulated CPU: processor time of its thread, and how long it was occupied: from waking up, because of a budget that is
    /// used up, until the group is frozen or the period is over.
    pub fn work(&self) -> Vec<(usize, Duration, Duration)> {
        let of = |(cpu, work): &(usize, Arc<Work>)| {
            let time = |sum: &AtomicU64| Duration::from_nanos(sum.load(Ordering::Relaxed));
            (*cpu, time(&work.total_ns), time(&work.occupied_ns))
        };
        self.works.iter().map(of).collect()
    }

    /// How long the kernel's programs have run in interrupts, on all CPUs, which no thread's time includes. Counted
    /// while [`ProgramStatistics`] are on; `None` where threads decide.
    pub fn program_time(&self) -> Option<Duration> {
        self.decider.programs().map(|kernel| Duration::from_nanos(kernel.time_ns()))
    }

    /// For each group the cost of its freezer; `None` if it is not frozen.
    pub fn freezer_costs(&self) -> Vec<Option<FreezerCost>> {
        self.common.freezers.iter().map(|freezer| freezer.as_ref().map(Freezer::cost)).collect()
    }

    /// Whether regulation has ended by itself, because a counter or a thread has failed, a CPU is offline, a group was
    /// removed, or the guardian has ended: the last incidents have the cause, if it is known. Checks groups and CPUs;
    /// to be called periodically.
    pub fn has_ended(&mut self) -> bool {
        if self.looked_outside.is_none_or(|looked| looked.elapsed() > OUTSIDE) {
            self.look_outside();
            self.looked_outside = Some(Instant::now());
        }
        let freezers = self.common.freezers.iter().flatten().any(Freezer::has_ended);
        self.is_stopped() || freezers || self.guardian.as_mut().is_some_and(|guardian| !guardian.is_alive())
    }

    /// Reports groups that were removed, and CPUs that have come: nothing regulates these.
    fn look_outside(&mut self) {
        // The module follows the CPUs that it regulates.
        let follows = matches!(self.decider, Decider::Module(_));
        let came = !follows && online_cpus().is_ok_and(|online| online != self.online);
        for (seat, &(group, cpu)) in self.seats.iter().enumerate() {
            let gone = inode(&self.settings.groups[group]) != self.inodes[group];
            let cause = if gone { Cause::GroupGone } else { Cause::CpusChanged };
            if (gone || came) && !self.is_stopped() {
                let period = self.period();
                self.common.report(seat, Incident::without_count(period, (group, cpu), cause));
                self.common.stop.store(true, Ordering::Release);
            }
        }
    }

    /// Ends the regulation: the periods under way are judged as they are, and groups run. Snapshots and incidents are final then.
    pub fn finish(&mut self) {
        self.common.stop.store(true, Ordering::Release);
        self.common.ring();
        sys::notify(self.common.ended.as_fd());
        for thread in self.threads.drain(..) {
            // A panic of the thread has been reported where it happened.
            let _ = thread.join();
        }
    }

    /// Begins a new account of greatest values.
    pub fn reset_maxima(&self) {
        self.common.sums.iter().for_each(Sums::reset_maxima);
        match &self.decider {
            Decider::Threads => {}
            Decider::Programs(kernel) => kernel.reset_maxima(),
            Decider::Module(module) => {
                // Without it, the greatest values include those of the self-test.
                let _ = module.forget();
                self.await_looks();
            }
        }
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.common.stop.load(Ordering::Acquire)
    }
}

impl Drop for Regulator {
    fn drop(&mut self) {
        self.finish();
    }
}

fn inode(group: &GroupSettings) -> Option<u64> {
    match &group.place {
        Place::Cgroup(cgroup) => cgroup.inode(),
        Place::Cpus => None,
    }
}

/// Time between two looks at groups and CPUs, whatever happens.
const OUTSIDE: Duration = Duration::from_millis(50);

/// Time before a changed reservation is in force: no thread is late by as much.
const CHANGE_NS: u64 = 100_000_000;
const CHANGE_PRIORITY: i32 = 97;
/// The module applies a changed reservation after some milliseconds, plus at most this number of periods.
const CHANGE_AHEAD: u32 = 4;

/// Time between the start of the threads and the first period.
const START_NS: u64 = 5_000_000;

/// An observation counts for half.
const EWMA_SHIFT: u32 = 1;

/// The data that a thread needs to take its seats.
struct Opening {
    index: usize,
    group: usize,
    core: Core<Ewma>,
    folder: Option<File>,
    code: EventCode,
    /// q and s.
    slack: (u64, u64),
}

/// Ends the regulation of all CPUs when it is dropped.
struct End(Arc<Common>);

impl Drop for End {
    fn drop(&mut self) {
        self.0.stop.store(true, Ordering::Release);
        self.0.ring();
        sys::notify(self.0.alarm.as_fd());
    }
}

/// The thread of a CPU.
fn regulate(
    (cpu, bell): (usize, usize),
    places: Vec<Opening>,
    (common, kernel, work): (Arc<Common>, Option<Arc<Kernel>>, Arc<Work>),
    ready: &Sender<Result<(), RegulatorError>>,
    begin: &Receiver<()>,
) {
    let of_cpu = OfCpu { cpu, bell, common: Arc::clone(&common), work };
    let prepared = sys::pin(&[cpu])
        .and_then(|()| sys::set_fifo(REGULATOR_PRIORITY))
        .map_err(RegulatorError::Priority)
        .and_then(|()| match kernel {
            None => of_cpu.regulator(places).map(Runner::Regulator),
            Some(kernel) => of_cpu.attendant(places, kernel).map(Runner::Attendant),
        });
    let runner = match prepared {
        Ok(runner) => runner,
        Err(error) => {
            // The starter waits for it.
            let _ = ready.send(Err(error));
            return;
        }
    };
    let _ = ready.send(Ok(()));
    // However this thread ends: a CPU without it is not regulated.
    let _end = End(common);
    // The starter gives up if another thread cannot begin.
    if begin.recv().is_ok() {
        match runner {
            Runner::Regulator(regulator) => regulator.run(),
            Runner::Attendant(attendant) => attendant.run(),
        }
    }
}

enum Runner {
    Regulator(CpuRegulator),
    Attendant(CpuAttendant),
}

struct OfCpu {
    cpu: usize,
    bell: usize,
    common: Arc<Common>,
    work: Arc<Work>,
}

impl OfCpu {
    fn regulator(self, places: Vec<Opening>) -> Result<CpuRegulator, RegulatorError> {
        let OfCpu { cpu, bell, common, work } = self;
        let seat = |place: Opening| {
            let counter = Counter::open(place.code, cpu, place.folder.as_ref().map(AsFd::as_fd))?;
            Ok(Seat::new(place.index, (place.group, cpu), place.core, counter, place.slack, Arc::clone(&common)))
        };
        let seats = places.into_iter().map(seat).collect::<Result<Vec<_>, RegulatorError>>()?;
        let timer = sys::timer_fd().map_err(RegulatorError::Thread)?;
        Ok(CpuRegulator::new(cpu, bell, seats, common, work, timer))
    }

    fn attendant(self, places: Vec<Opening>, kernel: Arc<Kernel>) -> Result<CpuAttendant, RegulatorError> {
        let OfCpu { cpu, bell, common, work } = self;
        let clock = Counter::sampling(EventCode::CPU_CLOCK, cpu, None, common.period_ns)?;
        let mut attached = vec![kernel.attach_clock(cpu, clock.fd())?];
        let mut seats = Vec::new();
        for (slot, place) in places.into_iter().enumerate() {
            let (quantum, skid) = place.slack;
            let counter = Counter::sampling(place.code, cpu, place.folder.as_ref().map(AsFd::as_fd), quantum)?;
            let quantum = u32::try_from(quantum + counter.coarseness()).unwrap_or(u32::MAX);
            kernel.place(place.index, cpu, (quantum, skid));
            attached.push(kernel.attach_counter(place.index, (cpu, slot), counter.fd())?);
            counter.enable().map_err(|cause| RegulatorError::Counter { cpu, cause })?;
            seats.push(Attended::new(place.index, place.group, quantum.into(), counter, Arc::clone(&common)));
        }
        let timer = sys::timer_fd().map_err(RegulatorError::Thread)?;
        Ok(CpuAttendant {
            cpu,
            bell,
            attached,
            seats,
            clock,
            timer,
            is_clock_off: false,
            quiet: u32::MAX,
            common,
            kernel,
            work,
        })
    }
}

fn freezer(group: &GroupSettings) -> Result<Option<Freezer>, RegulatorError> {
    let Place::Cgroup(cgroup) = &group.place else { return Ok(None) };
    Freezer::start(cgroup, &group.cpus, FREEZER_PRIORITY).map(Some)
}

/// The file that a regulator holds locked.
const LOCK_FILE: &str = "/run/memtint/guard.lock";

fn lock_machine() -> Result<File, RegulatorError> {
    let path = Path::new(LOCK_FILE);
    let failed = |cause| RegulatorError::LockFile { path: path.to_owned(), cause };
    if let Some(folder) = path.parent() {
        // Only root may enter it: others rely on its content.
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(failed)?;
        check_folder(folder).map_err(failed)?;
    }
    // Any user could lock a file that can be read.
    let mut file =
        File::options().read(true).write(true).create(true).truncate(false).mode(0o600).open(path).map_err(failed)?;
    let begin = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => break,
            // A guardian may be about to finish its work.
            Err(TryLockError::WouldBlock) if begin.elapsed() < LOCK_TIME => {
                std::thread::sleep(Duration::from_millis(10));
            }
            Err(TryLockError::WouldBlock) => {
                let mut text = String::new();
                let process = file.read_to_string(&mut text).ok().and_then(|_| text.trim().parse().ok());
                return Err(RegulatorError::Another { process });
            }
            Err(TryLockError::Error(cause)) => return Err(failed(cause)),
        }
    }
    file.set_len(0).and_then(|()| write!(file, "{}", std::process::id())).map_err(failed)?;
    Ok(file)
}

/// Fails unless the folder is this user's own, and closes it to others.
fn check_folder(folder: &Path) -> std::io::Result<()> {
    // Not the target of a link.
    let found = std::fs::symlink_metadata(folder)?;
    if !found.is_dir() || found.uid() != sys::user() {
        let accepted = format!("a folder of user {}", sys::user());
        return Err(std::io::Error::other(format!(
            "{} is a {} of user {}; accepted is {accepted}",
            folder.display(),
            if found.is_dir() { "folder" } else { "file" },
            found.uid()
        )));
    }
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o700))
}

const LOCK_TIME: Duration = Duration::from_secs(1);
