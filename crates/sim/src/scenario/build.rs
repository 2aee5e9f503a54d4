//! Builds the simulated machine of a scenario.

use std::sync::Arc;

use super::{COLORED_USER, Channels, Check, HOPS_MAX, Late, PLAIN_USER, Scenario, ScenarioTask, Workload};
use crate::core::{CoreConfig, CoreModel};
use crate::error::SimError;
use crate::machine::{Machine, MachineConfig, Scheduling, TaskConfig};
use crate::memory::NumaConfig;
use crate::task::{Barrier, Release};
use memtint_cache::{CacheConfig, HierarchyConfig, Latencies, LlcConfig, PrefetchConfig, StrideConfig, WayMask};
use memtint_dram::{
    CommandSink, ControllerConfig, Decoder, Device, DramError, PagePolicy, QueueSharing, RefreshCheck, RefreshKind,
    RefreshPlan, Scheduler,
};
use memtint_frames::{
    Bpm, Buddy, Camc, Form, FrameAllocator, FrameError, FrameMemory, Hybrid, MemIds, Mode, Palloc, PerCpu, Pick,
    Policy, Profile, Shared, Tenant, TintMalloc, Tinted,
};
use memtint_map::{Granule, Palette};
use memtint_system::{AllocatorName, CacheSize, Inclusion, PageName, Replacement, SchedulerName, SchedulingName};
use memtint_units::{ByteSize, Clock, IndexSet, Picoseconds};
use memtint_workload::{
    Bandwidth, BandwidthParameters, Kind, Latency, LatencyParameters, Region, Source, Stream, StreamParameters,
    Strides, StridesParameters, TraceFile, Uniform, UniformParameters, catalogue,
};

/// Makes page frames, all or enough to verify.
type MakeFrames = fn(&Palette, &[u32]) -> Result<Arc<FrameMemory>, FrameError>;

impl Scenario {
    /// The machine's channels, for observers of their commands.
    ///
    /// # Errors
    ///
    /// Errors of the platform's mapping or of the devices.
    pub fn channels(&self) -> Result<Channels, SimError> {
        let decoder = Decoder::new(&self.platform, &self.device.geometry)?;
        let refresh = self.refresh()?;
        Ok(Channels {
            count: decoder.node_of_channel().len(),
            geometry: decoder.geometry(&self.device.geometry),
            timing: refresh.timing,
            duty: refresh.duty,
        })
    }

    /// Builds the machine with its tasks; the commands are not observed.
    ///
    /// # Errors
    ///
    /// Errors of its parts, such as a damaged trace file.
    pub fn machine(&self) -> Result<Machine, SimError> {
        let channels = Decoder::new(&self.platform, &self.device.geometry)?.node_of_channel().len();
        self.watched_machine(vec![(); channels])
    }

    /// Builds the machine with its tasks, and sinks for the commands of its [`Scenario::channels`].
    ///
    /// # Errors
    ///
    /// As [`Scenario::machine`].
    ///
    /// # Panics
    ///
    /// When there is not one sink for each channel.
    pub fn watched_machine<S: CommandSink>(&self, sinks: Vec<S>) -> Result<Machine<S>, SimError> {
        self.build(sinks, FrameMemory::of_palette)
    }

    pub(super) fn build<S: CommandSink>(&self, sinks: Vec<S>, frames: MakeFrames) -> Result<Machine<S>, SimError> {
        let spec = &self.spec;
        let check = Check { origin: &self.origin };
        let cores = self.cores();
        let decoder = Decoder::new(&self.platform, &self.device.geometry)?;
        let nodes = decoder.node_of_channel().iter().max().map_or(1, |&last| last + 1);
        let core_nodes = match &spec.numa.core_nodes {
            Some(list) => list.clone(),
            None => (0..cores).map(|core| core * nodes / cores).collect(),
        };
        check.that(
            "simulation.numa.core_nodes",
            core_nodes.len() == cores as usize,
            core_nodes.len(),
            format!("a list of {cores}"),
        )?;
        if let Some(&bad) = core_nodes.iter().find(|&&node| node >= nodes) {
            return check
                .that("simulation.numa.core_nodes", false, bad, format!("0 to {}", nodes - 1))
                .map(|()| unreachable!());
        }
        let one_apart = (0..nodes).map(|from| (0..nodes).map(|to| u32::from(from != to)).collect()).collect();
        let hops: Vec<Vec<u32>> = spec.numa.hops.clone().unwrap_or(one_apart);
        let square = hops.len() == nodes as usize && hops.iter().all(|row| row.len() == nodes as usize);
        let sound = square
            && (0..)
                .zip(&hops)
                .all(|(from, row)| (0..).zip(row).all(|(to, &hops)| (hops == 0) == (from == to) && hops <= HOPS_MAX));
        let accepted = format!("{nodes} lists of {nodes} numbers, 0 for itself, 1 to {HOPS_MAX} for others");
        check.that("simulation.numa.hops", sound, format!("{hops:?}"), accepted)?;
        let palette = Palette::new(&self.platform, self.granule())?;
        let names = self.allocators();
        let memory = frames(&palette, &core_nodes)?;
        let systems = names.iter().map(|&name| self.system(name, &memory)).collect::<Result<_, _>>()?;
        let mut allocators = Shared::new(systems)?;
        // The machine's is the first where frames are taken.
        take_some(&mut allocators.member(0), spec.system.taken_per_1024, self.seed)?;
        let megahertz = u64::from(spec.cores.mhz);
        let tasks = spec.tasks.iter().enumerate();
        let tasks = tasks
            .map(|(index, task)| self.task(index, task, &palette, &decoder))
            .collect::<Result<Vec<_>, SimError>>()?;
        let (controller, device) = self.controller()?;
        let ranks = decoder.geometry(&device.geometry).ranks;
        let soft_refresh = self.soft_refresh(ranks)?;
        let link = u64::from(spec.numa.link_mb_per_s.unwrap_or(12_800));
        let burst_bytes = u64::from(decoder.geometry(&device.geometry).burst_bytes());
        let caches = self.caches(cores)?;
        let regulators = self.regulators(&palette, caches.line.bytes())?;
        let machine = Machine::new(
            MachineConfig {
                controller,
                caches,
                core: CoreConfig {
                    clock: Clock::from_khz(megahertz * 1000).expect("checked above"),
                    width: spec.cores.width,
                    model: match spec.cores.window {
                        0 => CoreModel::InOrder,
                        window => CoreModel::Windowed { window },
                    },
                    mshrs: spec.cores.mshrs,
                },
                core_nodes,
                numa: NumaConfig {
                    hop: spec.numa.hop.map_or(Picoseconds::from_ns(50), |hop| hop.0),
                    hops: hops.into_iter().flatten().collect(),
                    // Bytes over megabytes a second are microseconds.
                    burst_time: Picoseconds((burst_bytes * 1_000_000).div_ceil(link)),
                },
                allocators,
                fault: spec.system.fault.0,
                switch: spec.system.switch.0,
                preemption: spec.system.preemption,
                soft_refresh,
                servers: self.servers(ranks)?,
                table: self.table(),
                regulation: regulators.map(|regulators| regulators.config),
                scheduling: match spec.system.scheduling {
                    SchedulingName::FixedPriority => Scheduling::FixedPriority,
                    SchedulingName::Edf => Scheduling::EarliestDeadline,
                    SchedulingName::Table => Scheduling::Table,
                    SchedulingName::RoundRobin => Scheduling::RoundRobin { quantum: spec.system.quantum.0 },
                },
                decoder,
                device,
            },
            tasks,
            sinks,
        );
        machine.map_err(|error| match error {
            SimError::Policy { task, reason } => self.refused(self.allocator_of(&spec.tasks[task]), Some(task), reason),
            other => other,
        })
    }

    pub(super) fn granule(&self) -> Granule {
        self.spec.granule.unwrap_or_default()
    }

    pub(super) fn caches(&self, cores: u32) -> Result<HierarchyConfig, SimError> {
        let spec = &self.spec;
        let check = Check { origin: &self.origin };
        if let Some(line) = spec.caches.line.filter(|_| spec.caches.l1.is_none() || spec.caches.llc.is_none()) {
            return Err(check.refuse(
                "simulation.caches.line",
                line,
                "nothing, unless simulation.caches.l1 and simulation.caches.llc are given",
            ));
        }
        let mut caches = match &spec.caches.l1 {
            None => HierarchyConfig::from_platform(&self.platform, cores)?,
            Some(l1) => self.caches_of_scenario(l1, cores)?,
        };
        caches.classes = spec.tasks.len() as u32;
        caches.seed = self.seed;
        let replacement = replacement(spec.caches.replacement);
        caches.l1_data.replacement = replacement;
        caches.llc.cache.replacement = replacement;
        for cache in [&mut caches.l1_instruction, &mut caches.l2].into_iter().flatten() {
            cache.replacement = replacement;
        }
        caches.prefetch.next_line = spec.caches.next_line;
        caches.prefetch.stride = spec.caches.stride.then_some(StrideConfig { streams: 16, confidence: 2, degree: 2 });
        if let Some([l1, l2, llc, peer, memory]) = spec.caches.latency_cycles {
            let latencies = &mut caches.latencies;
            (latencies.l1_cycles, latencies.l2_cycles, latencies.llc_cycles) = (l1, l2, llc);
            (latencies.peer_cycles, latencies.memory_cycles) = (peer, memory);
            latencies.source = format!("scenario {:?}", self.origin);
        }
        if spec.tasks.iter().any(|task| task.ways.is_some()) {
            let ways = caches.llc.cache.ways;
            let mask = |task: &ScenarioTask| -> Result<WayMask, SimError> {
                let text = task.ways.as_deref().unwrap_or("all");
                let set = IndexSet::parse(text, ways)
                    .map_err(|error| check.refuse(&format!("task {:?}: ways", task.name), text, error))?;
                Ok(WayMask((0..ways).filter(|&way| set.contains(way)).fold(0, |mask, way| mask | 1 << way)))
            };
            caches.llc.way_masks = spec.tasks.iter().map(mask).collect::<Result<_, _>>()?;
        }
        Ok(caches)
    }

    /// Private caches that the scenario describes, and the last level of the scenario or the platform.
    fn caches_of_scenario(&self, l1: &CacheSize, cores: u32) -> Result<HierarchyConfig, SimError> {
        let section = &self.spec.caches;
        let cache = |size: &CacheSize| CacheConfig {
            size: size.size,
            ways: size.ways,
            set_bits: Vec::new(),
            replacement: replacement(section.replacement),
            mshrs: self.spec.cores.mshrs,
        };
        let llc = match &section.llc {
            None => LlcConfig::from_platform(&self.platform)?,
            Some(size) => LlcConfig {
                cache: cache(&CacheSize { size: size.size, ways: size.ways }),
                slice_functions: Vec::new(),
                instances: size.instances,
                inclusion: match size.inclusion {
                    Inclusion::Inclusive => memtint_cache::Inclusion::Inclusive,
                    Inclusion::NonInclusive => memtint_cache::Inclusion::NonInclusive,
                    Inclusion::Exclusive => memtint_cache::Inclusion::Exclusive,
                },
                inclusion_source: format!("scenario {:?}", self.origin),
                way_masks: Vec::new(),
            },
        };
        let check = Check { origin: &self.origin };
        let Some([l1_cycles, l2_cycles, llc_cycles, peer_cycles, memory_cycles]) = section.latency_cycles else {
            return Err(check.refuse(
                "simulation.caches.latency_cycles",
                "absent",
                "five numbers, as simulation.caches.l1 is given",
            ));
        };
        Ok(HierarchyConfig {
            line: section.line.unwrap_or(self.platform.llc().map_or(ByteSize(64), |llc| llc.line)),
            cores,
            classes: 1,
            l1_data: cache(l1),
            l1_instruction: None,
            l2: section.l2.as_ref().map(cache),
            llc,
            coherent: true,
            prefetch: PrefetchConfig::default(),
            latencies: Latencies {
                l1_cycles,
                l2_cycles,
                llc_cycles,
                peer_cycles,
                memory_cycles,
                source: format!("scenario {:?}", self.origin),
            },
            address_end: self.platform.regions().iter().map(|region| region.end().0).max().unwrap_or_default(),
            seed: self.seed,
        })
    }

    pub(super) fn refresh(&self) -> Result<RefreshPlan, SimError> {
        let check = Check { origin: &self.origin };
        let name = self.spec.controller.refresh.as_deref().unwrap_or("staggered");
        if name == "timetable" {
            let duty = Some(RefreshCheck::window_only(&self.device, 0));
            return Ok(RefreshPlan { kind: RefreshKind::None, timing: self.device.timing, duty });
        }
        RefreshPlan::named(name, &self.device).map_err(|error| match error {
            DramError::Field { found, accepted, .. } => {
                check.refuse("simulation.controller.refresh", found, accepted + ", timetable")
            }
            other => other.into(),
        })
    }

    /// The ranks that the granules of each bank class lie in, one bit each.
    fn ranks_of_classes(&self, palette: &Palette, decoder: &Decoder) -> Vec<u64> {
        let geometry = decoder.geometry(&self.device.geometry);
        let mut ranks = vec![0u64; palette.bank_classes() as usize];
        let mut left = palette.granules_of_bank_classes().iter().filter(|&&granules| granules > 0).count();

        // A class touches the same banks in each of its granules: one granule is enough.
        for region in self.platform.regions() {
            let (mut at, step) = (region.base.0, palette.granule().bytes());
            while at < region.end().0 && left > 0 {
                let addr = memtint_units::PhysAddr(at);
                if let Some(mask) = palette.bank_class(addr).map(|class| &mut ranks[class as usize])
                    && *mask == 0
                {
                    let bursts = (at..at + step).step_by(geometry.burst_bytes() as usize);
                    let places = bursts.filter_map(|addr| decoder.place(memtint_units::PhysAddr(addr)));
                    *mask = places.fold(0, |mask, place| mask | 1 << geometry.rank_of(place.bank).0);
                    left -= usize::from(*mask != 0);
                }
                at += step;
            }
        }
        ranks
    }

    /// The controllers, and the devices with the timing that goes with their refresh.
    pub(super) fn controller(&self) -> Result<(ControllerConfig, Device), SimError> {
        let section = &self.spec.controller;
        let plan = self.refresh()?;
        let device = Device { timing: plan.timing, ..self.device.clone() };
        let default = ControllerConfig::default();
        let write_queue = section.write_queue.unwrap_or(default.write_queue);
        let config = ControllerConfig {
            read_queue: section.read_queue.unwrap_or(default.read_queue),
            write_queue,
            sharing: if section.queue_per_bank { QueueSharing::PerBank } else { QueueSharing::Shared },
            drain_at: section.drain_at.unwrap_or((write_queue - write_queue / 5).max(1)),
            drain_to: section.drain_to.unwrap_or(write_queue / 5),
            scheduler: match section.scheduler.unwrap_or(SchedulerName::FrFcfs) {
                SchedulerName::Fcfs => Scheduler::Fcfs,
                SchedulerName::FrFcfs => Scheduler::FrFcfs { cap: Some(section.cap.unwrap_or(16)) },
                SchedulerName::ParBs => Scheduler::ParBs { marking_cap: section.cap.unwrap_or(5) },
            },
            page_policy: match section.page.unwrap_or(PageName::Open) {
                PageName::Open => PagePolicy::Open,
                PageName::Closed => PagePolicy::Closed,
                PageName::Timeout => PagePolicy::Timeout(section.timeout_cycles.unwrap_or(100)),
            },
            refresh: plan.kind,
        };
        Ok((config, device))
    }

    /// The allocator of a task's frames.
    pub(crate) fn allocator_of(&self, task: &ScenarioTask) -> AllocatorName {
        task.allocator.unwrap_or(self.spec.system.allocator)
    }

    /// The allocators in use: the machine's, if it is, and those of tasks in the order of the tasks.
    fn allocators(&self) -> Vec<AllocatorName> {
        let of_machine = self.spec.system.allocator;
        let of_tasks = self.spec.tasks.iter().map(|task| self.allocator_of(task));
        let used = self.spec.system.taken_per_1024 > 0 || of_tasks.clone().any(|name| name == of_machine);
        let mut names = if used { vec![of_machine] } else { Vec::new() };
        for name in of_tasks {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }

    /// The error of an allocator, with the field that names it: of a task, or of the first task that uses it.
    pub(super) fn refused(&self, name: AllocatorName, task: Option<usize>, reason: FrameError) -> SimError {
        let mut tasks = self.spec.tasks.iter();
        let task = match task {
            Some(index) => self.spec.tasks.get(index),
            None => tasks.find(|task| task.allocator == Some(name)).filter(|_| name != self.spec.system.allocator),
        };
        let field =
            task.map_or("simulation.system.allocator".to_owned(), |task| format!("task {:?}: allocator", task.name));
        SimError::Allocator { origin: self.origin.clone(), field, allocator: name.name(), reason: Box::new(reason) }
    }

    pub(super) fn system(&self, name: AllocatorName, memory: &Arc<FrameMemory>) -> Result<Box<dyn Tenant>, SimError> {
        let per_cpu = Some(PerCpu::LINUX_3_6);
        let refuse = |reason| self.refused(name, None, reason);
        Ok(match name {
            AllocatorName::Buddy => Box::new(Buddy::new(memory, per_cpu)),
            AllocatorName::Palloc => Box::new(Palloc::new(memory, per_cpu, Pick::default())),
            AllocatorName::Bpm => Box::new(Bpm::new(memory).map_err(refuse)?),
            AllocatorName::Camc => {
                let mut camc = Camc::new(memory, per_cpu, Form::default());
                camc.register_user(COLORED_USER);
                camc.add_pattern("*");
                Box::new(camc)
            }
            AllocatorName::Tintmalloc => {
                Box::new(TintMalloc::new(memory, MemIds::dense(memory), Form::default()).map_err(refuse)?)
            }
            AllocatorName::Hybrid => Box::new(Hybrid::new(memory, per_cpu)),
            AllocatorName::Tinted => Box::new(Tinted::new(memory)),
        })
    }

    pub(super) fn task(
        &self,
        index: usize,
        task: &ScenarioTask,
        palette: &Palette,
        decoder: &Decoder,
    ) -> Result<TaskConfig, SimError> {
        let check = Check { origin: &self.origin };
        let list = |field: &str, text: &Option<String>, count: u32| {
            let parse = |text: &String| {
                IndexSet::parse(text, count)
                    .map_err(|error| check.refuse(&format!("task {:?}: {field}", task.name), text, error))
            };
            text.as_ref().map(parse).transpose()
        };
        let nodes = self.platform.domains().iter().map(|domain| domain.node + 1).max().unwrap_or(1);
        let mut banks = list("banks", &task.banks, palette.bank_classes())?;
        let mut ranks = u64::MAX;
        let ranks_end = decoder.geometry(&self.device.geometry).ranks;
        let server = self.server_of(task)?;
        let of_server = server.map(|(_, server)| self.ranks_of_server(server, ranks_end)).transpose()?.flatten();
        if self.spec.timetable.is_some() || task.ranks.is_some() || of_server.is_some() {
            let of_classes = self.ranks_of_classes(palette, decoder);
            if let Some(wanted) = list("ranks", &task.ranks, ranks_end)? {
                let wanted = wanted.iter().fold(0, |mask, rank| mask | 1u64 << rank);
                let lies = |&class: &u32| {
                    let ranks = of_classes[class as usize];
                    ranks != 0 && ranks & !wanted == 0 && banks.as_ref().is_none_or(|banks| banks.contains(class))
                };
                let classes = (0..palette.bank_classes()).filter(lies);
                let narrowed = IndexSet::from_indices(classes, palette.bank_classes())
                    .map_err(|error| check.refuse(&format!("task {:?}: ranks", task.name), "unusable", error))?;
                if narrowed.is_empty() {
                    let accepted = "ranks that some of the task's bank classes lie in and no other rank";
                    return Err(check.refuse(
                        &format!("task {:?}: ranks", task.name),
                        format!("{:?}", task.ranks),
                        accepted,
                    ));
                }
                banks = Some(narrowed);
            }
            let has = |class: u32| banks.as_ref().is_none_or(|banks| banks.contains(class));
            ranks = (0..).zip(&of_classes).filter(|&(class, _)| has(class)).fold(0, |mask, (_, ranks)| mask | ranks);
        }
        if let Some((_, server)) = server.filter(|_| ranks & !of_server.unwrap_or(u64::MAX) != 0) {
            let (found, accepted) = (task.ranks.as_deref().unwrap_or("any"), server.ranks.as_deref().unwrap_or("any"));
            let accepted = format!("some of {accepted}, those of its server {:?}", server.name);
            return Err(check.refuse(&format!("task {:?}: ranks", task.name), found, accepted));
        }
        let policy = Policy {
            banks,
            sets: list("sets", &task.sets, palette.set_colors())?,
            nodes: list("node", &task.nodes, nodes)?,
            mode: if task.soft { Mode::Soft } else { Mode::Strict },
        };
        let allocator = self.allocator_of(task);
        let user = if task.banks.is_some() || task.ranks.is_some() { COLORED_USER } else { PLAIN_USER };
        let original = self.original(task).map_or(index, |(original, _)| original);
        Ok(TaskConfig {
            cores: self.cores_of(task)?.iter().map(|core| core as usize).collect(),
            allocator: self.allocators().iter().position(|&name| name == allocator).expect("it has a task"),
            profile: Profile { policy, user, path: task.name.clone(), ..Profile::default() },
            priority: task.priority,
            release: self.job_of(task).map(|job| Release {
                phase: job.phase.map_or(Picoseconds(0), |phase| phase.0),
                period: job.period.0,
                deadline: job.deadline.unwrap_or(job.period).0,
                references_per_job: job.references,
                gives_up: job.late == Late::GiveUp,
                uncounted: job.uncounted,
                jitter: job.jitter.0,
                seed: self.seed.wrapping_add(original as u64),
            }),
            ranks,
            server: server.map(|(index, _)| index),
            copy_of: task.copy_of.as_ref().map(|_| original),
            copy: task.copy.0,
            globals: task.globals,
            barrier: task.barrier.as_ref().map(|barrier| Barrier { group: barrier.group, every: barrier.every }),
            references: task.references,
            huge_pages: task.huge_pages,
            source: self.source(&task.workload, self.seed.wrapping_add(original as u64))?,
        })
    }

    pub(super) fn source(&self, workload: &Workload, seed: u64) -> Result<Box<dyn Source>, SimError> {
        let kind = |write: bool| if write { Kind::Write } else { Kind::Read };
        Ok(match *workload {
            Workload::Latency { size, gap } => {
                Box::new(Latency::new(&LatencyParameters { region: Region::of(size), gap, seed })?)
            }
            Workload::Bandwidth { size, step, write, gap } => Box::new(Bandwidth::new(&BandwidthParameters {
                region: Region::of(size),
                step_bytes: step.bytes(),
                kind: kind(write),
                gap,
            })?),
            Workload::Stream { size } => {
                let parameters =
                    StreamParameters { region: Region::of(size), ..StreamParameters::for_cache(ByteSize(1)) };
                Box::new(Stream::new(&parameters)?)
            }
            Workload::Strides { size, step, read } => Box::new(Strides::new(&StridesParameters {
                region: Region::of(size),
                step_bytes: step.bytes(),
                kind: kind(!read),
                ..StridesParameters::camc()
            })?),
            Workload::Uniform { size, writes_per_1024, gap } => {
                Box::new(Uniform::new(&UniformParameters { region: Region::of(size), writes_per_1024, gap, seed })?)
            }
            Workload::Program { ref model } => catalogue::find(model)?.source(seed)?,
            Workload::Trace { ref file, thread } => Box::new(TraceFile::open(&self.base.join(file))?.source(thread)),
        })
    }
}

fn replacement(name: Replacement) -> memtint_cache::Replacement {
    match name {
        Replacement::Lru => memtint_cache::Replacement::Lru,
        Replacement::TreePlru => memtint_cache::Replacement::TreePlru,
        Replacement::Random => memtint_cache::Replacement::Random,
    }
}

/// A name with a slash, or one that ends in .toml, is a file.
pub(super) fn is_path(name: &str) -> bool {
    name.contains('/') || name.ends_with(".toml")
}

/// Others have some of the memory already.
fn take_some(allocator: &mut dyn FrameAllocator, per_1024: u32, seed: u64) -> Result<(), SimError> {
    if per_1024 == 0 {
        return Ok(());
    }
    let others =
        allocator.enter(&Profile { policy: Policy::any(), path: "others".to_owned(), ..Profile::default() })?;
    let caller = memtint_frames::Caller { task: others, cpu: 0 };
    let frames = allocator.counts().frames;
    // Allocates all frames, in the allocator's order, and returns all but some: those kept are spread evenly.
    let mut kept = Vec::new();
    for index in 0..frames {
        let Ok(frame) = allocator.allocate(caller) else { break };
        kept.push((memtint_units::random::at(seed, index) % 1024, frame));
    }
    for (draw, frame) in kept {
        if draw >= u64::from(per_1024) {
            allocator.free(caller, frame)?;
        }
    }
    allocator.flush();
    Ok(())
}
