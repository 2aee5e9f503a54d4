//! Options of `memtint dram`, and what they resolve to.

use std::path::PathBuf;
use std::str::FromStr as _;

use memtint_dram::{ControllerConfig, Device, DeviceChoice, PagePolicy, QueueSharing, Scheduler, Standard};
use memtint_replay::{ChannelRequest, MATCHED, ReplayRequest, SEED};

use crate::output::Failure;

/// Options that choose the devices of a channel.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct DeviceArguments {
    /// Standard (see memtint dram list), or a file (a path with a slash or ending in .toml).
    #[arg(long, value_name = "STANDARD", default_value = "ddr3-1600")]
    device: String,
    #[command(flatten)]
    size: SizeArguments,
}

/// Options that choose one of a standard's devices.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct SizeArguments {
    /// Density of one device in gibibits; default: the standard's.
    #[arg(long, value_name = "GBIT")]
    density: Option<u32>,
    /// Width of one device in bits; default: the standard's.
    #[arg(long, value_name = "BITS")]
    width: Option<u32>,
    /// Ranks on the channel, 1 to 16; default: 1, or what the mapping's platform has.
    #[arg(long, value_name = "N")]
    ranks: Option<u32>,
}

/// Options that choose the address mapping.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct MappingArguments {
    /// Address mapping: robabgracoch (from the top: row, rank, bank, bank group, column, byte of the burst), or a platform.
    #[arg(long, value_name = "MAPPING", default_value = MATCHED)]
    mapping: String,
    /// Channel of the platform; what goes to other channels is left out.
    #[arg(long, value_name = "N", default_value_t = 0)]
    channel: u32,
}

/// Arguments of `memtint dram replay`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Replay rule: in each cycle of the memory clock the next request is offered if its time has come and the one before it was \
accepted; one that finds the queue full is offered again in the next cycle; then the controller sends at most one command. \
The latency of a read is the cycle in which its last data arrive minus the cycle in which it was accepted.\n\
Trace files: lines 0xADDRESS R|W [CYCLE]; LD|ST ADDRESS (Ramulator 2); ADDRESS READ|WRITE CYCLE (DRAMsim3).\n\
Exit status: 0 done, 1 --check found a command that breaks a rule, 2 failure.\n\
Example: memtint dram replay --device ddr4-2400 --trace mixed --requests 2000000 --check")]
pub(crate) struct ReplayArguments {
    #[command(flatten)]
    device: DeviceArguments,
    #[command(flatten)]
    mapping: MappingArguments,
    #[command(flatten)]
    controller: ControllerArguments,
    /// stream (burst i), random (burst splitmix64(seed, i) mod 2^26), mixed (random, some write), or a trace file.
    #[arg(long, value_name = "TRACE", default_value = "random")]
    trace: PathBuf,
    /// Requests; default: 100000, or all of a trace file.
    #[arg(long, value_name = "N")]
    requests: Option<u64>,
    /// Cycles between offers, 0 to keep the queues full; default: the times of the trace file, or 0.
    #[arg(long, value_name = "CYCLES", value_parser = clap::value_parser!(u64).range(..=1_000_000))]
    period: Option<u64>,
    /// Percentage of writes in a mixed trace: request i writes if splitmix64(seed ^ 0x5EED0000000000B2, i) mod 100 is
    /// below it.
    #[arg(long, value_name = "PERCENT", default_value_t = 33, value_parser = clap::value_parser!(u8).range(..=100))]
    writes: u8,
    /// Seed of random and mixed traces, decimal or after 0x hexadecimal.
    #[arg(long, value_name = "N", default_value_t = SEED, value_parser = seed)]
    seed: u64,
    /// Refresh: none, all-bank (ranks together), staggered, fgr2, fgr4, per-bank, same-bank, burst or elastic, if the
    /// standard has it.
    #[arg(long, value_name = "ENGINE", default_value = "all-bank")]
    refresh: String,
    /// The same as --refresh none.
    #[arg(long, conflicts_with = "refresh")]
    no_refresh: bool,
    /// Write the commands to a file.
    #[arg(long, value_name = "FILE")]
    commands: Option<PathBuf>,
    /// Check every command against the standard.
    #[arg(long)]
    check: bool,
}

/// Options of the controller.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Controller")]
pub(crate) struct ControllerArguments {
    /// Order of service.
    #[arg(long, value_enum, default_value_t = SchedulerName::FrFcfs)]
    scheduler: SchedulerName,
    /// Row hits in a row over an older request of the bank (fr-fcfs; a number or none), or requests of a requester and
    /// bank in a batch (par-bs). Default: 16 and 5.
    #[arg(long, value_name = "N", value_parser = cap)]
    cap: Option<Cap>,
    /// When rows are closed: open, closed, or timeout:CYCLES.
    #[arg(long, value_name = "POLICY", default_value = "open", value_parser = PagePolicy::from_str)]
    page: PagePolicy,
    /// Entries for reads and writes.
    #[arg(long, value_name = "READS:WRITES", default_value = "32:32", value_parser = pair)]
    queue: (u32, u32),
    /// Whether any bank may take any entry, or the entries are divided among the banks.
    #[arg(long, value_enum, default_value_t = SharingName::Shared)]
    sharing: SharingName,
    /// Waiting writes at which writes are drained, and down to which. Default: four fifths and one fifth of the entries.
    #[arg(long, value_name = "HIGH:LOW", value_parser = pair)]
    watermarks: Option<(u32, u32)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum SchedulerName {
    /// First come, first served in each bank.
    Fcfs,
    /// Row hits first, then the oldest.
    FrFcfs,
    /// Parallelism-aware batches.
    ParBs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum SharingName {
    /// One read and one write queue.
    Shared,
    /// Each bank has its own.
    PerBank,
}

/// A limit, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cap(Option<u32>);

impl SizeArguments {
    pub(super) fn device(&self, standard: &str) -> Result<Device, Failure> {
        let choice =
            DeviceChoice { density_gbit: self.density, device_bits: self.width, ranks: self.ranks.unwrap_or(1) };
        Ok(Standard::load(standard)?.device(choice)?)
    }
}

impl DeviceArguments {
    pub(super) fn channel(&self, mapping: &MappingArguments, refresh: &str) -> ChannelRequest {
        ChannelRequest {
            standard: self.device.clone(),
            density_gbit: self.size.density,
            device_bits: self.size.width,
            ranks: self.size.ranks,
            mapping: mapping.mapping.clone(),
            channel: mapping.channel,
            refresh: refresh.to_owned(),
        }
    }
}

impl ReplayArguments {
    pub(super) fn request(&self) -> ReplayRequest {
        let refresh = if self.no_refresh { "none" } else { &self.refresh };
        ReplayRequest {
            channel: self.device.channel(&self.mapping, refresh),
            controller: self.controller.config(),
            trace: self.trace.clone(),
            requests: self.requests,
            period_cycles: self.period,
            write_percent: self.writes.into(),
            seed: self.seed,
            commands: self.commands.clone(),
            check: self.check,
        }
    }
}

impl ControllerArguments {
    fn config(&self) -> ControllerConfig {
        let (read_queue, write_queue) = self.queue;
        let usual = || ControllerConfig::usual_watermarks(write_queue);
        let (drain_at, drain_to) = self.watermarks.unwrap_or_else(usual);
        let scheduler = match self.scheduler {
            SchedulerName::Fcfs => Scheduler::Fcfs,
            SchedulerName::FrFcfs => Scheduler::FrFcfs { cap: self.cap.map_or(Some(16), |cap| cap.0) },
            SchedulerName::ParBs => {
                Scheduler::ParBs { marking_cap: self.cap.map_or(5, |cap| cap.0.unwrap_or(u32::MAX)) }
            }
        };
        let sharing = match self.sharing {
            SharingName::Shared => QueueSharing::Shared,
            SharingName::PerBank => QueueSharing::PerBank,
        };
        ControllerConfig {
            read_queue,
            write_queue,
            sharing,
            drain_at,
            drain_to,
            scheduler,
            page_policy: self.page,
            ..ControllerConfig::default()
        }
    }
}

fn seed(text: &str) -> Result<u64, String> {
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    parsed.map_err(|_| "accepted is a number below 2^64, decimal or hexadecimal after 0x".to_owned())
}

fn cap(text: &str) -> Result<Cap, String> {
    match text {
        "none" => Ok(Cap(None)),
        _ => match text.parse() {
            Ok(number) if number > 0 => Ok(Cap(Some(number))),
            _ => Err("accepted is a number from 1, or none".to_owned()),
        },
    }
}

fn pair(text: &str) -> Result<(u32, u32), String> {
    let parsed = text.split_once(':').and_then(|(one, other)| Some((one.parse().ok()?, other.parse().ok()?)));
    parsed.ok_or_else(|| "accepted are two numbers with a colon between, for instance 32:16".to_owned())
}
