//! A whole replay: a trace against a channel, with its commands written and checked.

use std::path::PathBuf;

use memtint_dram::replay::{ReplayStats, replay_timed};
use memtint_dram::{
    CommandSink, CommandWatch, Controller, ControllerConfig, Cycle, Device, Energy, EnergyCounts, EnergyMeter,
    RankCounts, Rules, Violations,
};

use crate::channel::{Channel, ChannelRequest};
use crate::error::ReplayError;
use crate::feed::{Feed, Pace, Trace};
use crate::mapping::Mapping;
use crate::requests::{Shape, TraceFile};

/// Requests of a synthetic trace without [`ReplayRequest::requests`].
pub const DEFAULT_REQUESTS: u64 = 100_000;

/// What to replay.
#[derive(Clone, Debug)]
pub struct ReplayRequest {
    /// The channel.
    pub channel: ChannelRequest,
    /// The controller; its `refresh` is replaced by that of the channel.
    pub controller: ControllerConfig,
    /// Name of a [`Shape`], or a trace file.
    pub trace: PathBuf,
    /// Requests; `None` for all of a file, or [`DEFAULT_REQUESTS`].
    pub requests: Option<u64>,
    /// Cycles between offers, 0 to keep the queues full; `None` for the times of the trace.
    pub period_cycles: Option<u64>,
    /// Percentage of writes in a mixed trace.
    pub write_percent: u64,
    /// Seed of random and mixed traces.
    pub seed: u64,
    /// File for the commands.
    pub commands: Option<PathBuf>,
    /// Check every command against the standard.
    pub check: bool,
}

/// The result of a replay.
#[derive(Debug)]
pub struct Replayed {
    /// The request.
    pub request: ReplayRequest,
    /// The device, with the geometry of the channel.
    pub device: Device,
    /// From addresses to places on the channel.
    pub mapping: Mapping,
    /// The controller.
    pub config: ControllerConfig,
    /// Name of the refresh engine.
    pub engine: &'static str,
    /// Counts of requests, and their latencies.
    pub stats: ReplayStats,
    /// Counts of commands by rank.
    pub ranks: Vec<RankCounts>,
    /// Requests of the trace for other channels, which are left out.
    pub other_channels: u64,
    /// The trace has the times of its requests.
    pub timed: bool,
    /// Commands that were checked; `None` without [`ReplayRequest::check`].
    pub commands_checked: Option<u64>,
    /// What they violate.
    pub found: Violations,
}

impl ReplayRequest {
    /// Replays the trace. `told` is called before each request, with the number of requests so far.
    ///
    /// # Errors
    /// [`ReplayError`] for a channel, controller or trace that is refused, for commands that cannot be written, and with `check` for a
    /// trace without a request.
    pub fn run(self, told: &mut dyn FnMut(u64)) -> Result<Replayed, ReplayError> {
        let Channel { device, mapping, refresh } = self.channel.open()?;
        let config = ControllerConfig { refresh: refresh.kind, ..self.controller };
        let (trace, pace) = self.trace(&mapping, &device)?;
        let mut feed = Feed::new(trace, &mapping, pace);
        let watch = (self.check || self.commands.is_some()).then(|| {
            let rules = || Rules::new(&device, refresh.duty, Some(&self.channel.refresh));
            CommandWatch::new(self.commands.as_deref(), self.check.then(rules))
        });
        let (served, watch) = match watch.transpose()? {
            Some(watch) => {
                let (served, watch) =
                    serve(Controller::with_sink(device.geometry, device.timing, config, watch)?, &mut feed, told);
                (served, Some(watch))
            }
            None => (serve(Controller::new(device.geometry, device.timing, config)?, &mut feed, told).0, None),
        };
        if let Some(failure) = feed.take_failure() {
            return Err(failure);
        }
        if self.check && served.stats.requests == 0 {
            return Err(ReplayError::NoRequest { path: self.trace });
        }
        let (commands, found) = watch.map(CommandWatch::finish).transpose()?.unzip();
        let (other_channels, timed) = (feed.other_channels(), feed.is_timed());
        Ok(Replayed {
            commands_checked: commands.filter(|_| self.check),
            request: self,
            device,
            config,
            engine: served.engine,
            stats: served.stats,
            ranks: served.ranks,
            other_channels,
            timed,
            found: found.unwrap_or_default(),
            mapping,
        })
    }

    /// The trace, and how it is offered.
    fn trace(&self, mapping: &Mapping, device: &Device) -> Result<(Trace, Pace), ReplayError> {
        let shape = Shape::ALL.into_iter().find(|shape| self.trace.as_os_str() == shape.name());
        let (trace, default) = match shape {
            Some(shape) => {
                let trace = Trace::synthetic(shape, self.seed, self.write_percent, mapping, &device.geometry);
                (trace, Some(DEFAULT_REQUESTS))
            }
            None => (Trace::File(Box::new(TraceFile::open(&self.trace)?)), None),
        };
        Ok((trace, Pace { requests: self.requests.or(default), period: self.period_cycles }))
    }
}

/// What a controller counted.
struct Served {
    stats: ReplayStats,
    ranks: Vec<RankCounts>,
    engine: &'static str,
}

fn serve<S: CommandSink>(mut controller: Controller<S>, feed: &mut Feed<'_>, told: &mut dyn FnMut(u64)) -> (Served, S) {
    let requests = std::iter::from_fn(|| {
        told(feed.requests());
        feed.next()
    });
    let stats = replay_timed(&mut controller, requests);
    let (ranks, engine) = (controller.rank_counts(Cycle(stats.cycles)), controller.refresh_name());
    (Served { stats, ranks, engine }, controller.into_sink())
}

impl Replayed {
    /// Adds a count of all ranks up.
    #[must_use]
    pub fn sum(&self, of: fn(&RankCounts) -> u64) -> u64 {
        self.ranks.iter().map(of).sum()
    }

    /// Gives the energy of all ranks; `None` where no currents are published for the device.
    #[must_use]
    pub fn energy(&self) -> Option<Energy> {
        let meter = EnergyMeter::of(&self.device)?;
        let counts = |rank| EnergyCounts::of(rank, self.stats.cycles, &self.device.timing);
        Some(self.ranks.iter().map(|rank| meter.energy(&counts(rank))).sum())
    }

    /// Gives the simulated time in seconds.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        self.device.clock.start(self.stats.cycles).as_seconds()
    }

    /// Gives the bytes that were moved, divided by the simulated time.
    #[must_use]
    pub fn bytes_per_second(&self) -> f64 {
        let stats = &self.stats;
        let moved = (stats.hits + stats.misses + stats.conflicts) * u64::from(self.device.geometry.burst_bytes());
        let seconds = self.seconds();
        if seconds > 0.0 { moved as f64 / seconds } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MATCHED, SEED};

    /// A checked replay of a mixed trace with this number of requests, under a refresh engine.
    fn replayed(requests: u64, refresh: &str) -> Result<Replayed, ReplayError> {
        let request = ReplayRequest {
            channel: ChannelRequest {
                standard: "ddr4-2400".to_owned(),
                density_gbit: None,
                device_bits: None,
                ranks: None,
                mapping: MATCHED.to_owned(),
                channel: 0,
                refresh: refresh.to_owned(),
            },
            controller: ControllerConfig::default(),
            trace: "mixed".into(),
            requests: Some(requests),
            period_cycles: None,
            write_percent: 33,
            seed: SEED,
            commands: None,
            check: true,
        };
        request.run(&mut |_| {})
    }

    #[test]
    fn every_command_of_a_replay_is_checked() {
        let all_bank = replayed(2000, "all-bank").unwrap();
        assert!(all_bank.found.is_legal() && all_bank.commands_checked.is_some_and(|commands| commands > 2000));
        assert_eq!((all_bank.stats.requests, all_bank.engine), (2000, "all-bank"));
        let burst = replayed(2000, "burst").unwrap();
        assert!(burst.found.violation.is_none() && !burst.found.is_legal(), "it postpones by design");
    }

    #[test]
    fn nothing_to_check_is_refused() {
        assert!(matches!(replayed(0, "all-bank"), Err(ReplayError::NoRequest { .. })));
    }

    #[test]
    fn energy_and_bandwidth_follow_from_the_counts() {
        let found = replayed(500, "none").unwrap();
        let rows = found.stats.hits + found.stats.misses + found.stats.conflicts;
        assert_eq!(found.sum(|rank| rank.reads + rank.writes), rows);
        assert!(found.energy().is_some_and(|energy| energy.refresh_pj == 0 && energy.activate_pj > 0));
        let peak = 2400e6 * 8.0;
        assert!(found.bytes_per_second() > 0.0 && found.bytes_per_second() < peak);
    }
}
