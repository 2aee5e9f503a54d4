//! The measured program of the fault benchmarks, and the one that stirs the kernel's free lists before each run.
//!
//! Both are hidden verbs of the program itself, so that no compiler is needed where the bench runs.

use memtint_benchmarks::touch::{self, Pattern, Scramble, Touch};

use super::failed;
use crate::output::{Ending, Failure, done_json};

/// Order in which memory is touched for the first time.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(super) enum Order {
    /// One mapping, page after page.
    Sequential,
    /// One mapping, each page once, in random order.
    Random,
    /// A fresh mapping for every page.
    Single,
    /// One mapping that the kernel is asked to fill (MAP_POPULATE), then touched page after page.
    Populate,
}

/// Arguments of `memtint bench touch`.
#[derive(Debug, clap::Args)]
pub(super) struct TouchArguments {
    /// Order of the touches.
    #[arg(long, value_enum, default_value_t = Order::Sequential)]
    pattern: Order,
    /// Pages of 4 KiB.
    #[arg(long, value_name = "N", default_value_t = 16384)]
    pages: usize,
    /// How often memory is mapped, touched and unmapped.
    #[arg(long, value_name = "N", default_value_t = 1)]
    passes: usize,
    /// Seed of the random order.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Prints the frame numbers of the first pass too (needs CAP_SYS_ADMIN).
    #[arg(long)]
    frames: bool,
}

impl From<Order> for Pattern {
    fn from(order: Order) -> Pattern {
        match order {
            Order::Sequential => Pattern::Sequential,
            Order::Random => Pattern::Random,
            Order::Single => Pattern::Single,
            Order::Populate => Pattern::Populate,
        }
    }
}

/// Body of `memtint bench touch`.
pub(super) fn touch(arguments: &TouchArguments) -> Ending {
    let TouchArguments { pattern, pages, passes, seed, frames } = *arguments;
    if pages == 0 {
        return Err(Failure::Sentence("bench touch: --pages is 0, accepted is at least 1".to_owned()));
    }
    let asked = Touch { pattern: pattern.into(), pages, passes, seed, frames };
    done_json(&touch::touch(&asked).map_err(failed("bench touch"))?)
}

/// Arguments of `memtint bench scramble`.
#[derive(Debug, clap::Args)]
pub(super) struct ScrambleArguments {
    /// Pages of 4 KiB, on all CPUs together.
    #[arg(long, value_name = "N", default_value_t = 65536)]
    pages: usize,
    /// Seed of the order in which they are given back.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

/// Body of `memtint bench scramble`.
pub(super) fn scramble(arguments: &ScrambleArguments) -> Ending {
    let asked = Scramble { pages: arguments.pages, seed: arguments.seed };
    done_json(&touch::scramble(&asked).map_err(failed("bench touch"))?)
}
