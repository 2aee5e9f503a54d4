//! `memtint bench`: what coloring costs.

use crate::Ending;
use crate::output::{Failure, Format};

/// Arguments of `memtint bench`.
#[derive(Debug, clap::Args)]
pub(crate) struct BenchArguments {
    #[command(subcommand)]
    what: BenchVerb,
}

#[derive(Debug, clap::Subcommand)]
enum BenchVerb {
    /// Compares programs in color with the same programs without, interleaved.
    Run(BenchRunArguments),
}

/// Arguments of `memtint bench run`.
#[derive(Debug, clap::Args)]
struct BenchRunArguments {}

pub(crate) fn main(arguments: &BenchArguments, _format: Format) -> Ending {
    let BenchVerb::Run(BenchRunArguments {}) = arguments.what;
    Err(Failure::Sentence("bench run: the runtime is not connected in this build".to_owned()))
}
