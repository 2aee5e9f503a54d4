//! How many nanoseconds does a reference cost? `cargo bench -p memtint-workload`
//!
//! Prints the fastest of several rounds for each source, pulled in slices through `dyn Source`: what a simulator pays.

use std::hint::black_box;
use std::time::Instant;

use memtint_units::ByteSize;
use memtint_workload::{
    Bandwidth, BandwidthParameters, Latency, LatencyParameters, Program, Reference, Region, Source, Stream,
    StreamParameters, Strides, StridesParameters, TraceFile, TraceHeader, TraceWriter, Uniform, UniformParameters,
    catalogue,
};

const BATCH: usize = 1024;
const REFERENCES: usize = 4_000_000;
const ROUNDS: usize = 5;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let llc = ByteSize::mib(8);
    let uniform = UniformParameters { region: Region::of(ByteSize::gib(1)), writes_per_1024: 300, gap: 2, seed: 1 };
    let program = |name: &str| Program::new(&catalogue::find(name)?.parameters(1)?);
    let sources: Vec<(&str, Box<dyn Source>)> = vec![
        ("latency", Box::new(Latency::new(&LatencyParameters::for_cache(llc, 1))?)),
        ("bandwidth", Box::new(Bandwidth::new(&BandwidthParameters::for_cache(llc))?)),
        ("stream", Box::new(Stream::new(&StreamParameters::for_cache(llc))?)),
        ("strides", Box::new(Strides::new(&StridesParameters::camc())?)),
        ("uniform", Box::new(Uniform::new(&uniform)?)),
        ("program lbm", Box::new(program("palloc/470.lbm")?)),
        ("program mcf", Box::new(program("bpm/429.mcf")?)),
        ("trace of mcf", Box::new(trace_of(&mut program("bpm/429.mcf")?)?)),
    ];
    for (name, source) in sources {
        println!("{name:<14} {:>6.2} ns a reference", fastest(source.as_ref()));
    }
    Ok(())
}

fn fastest(source: &dyn Source) -> f64 {
    let mut batch = vec![Reference::default(); BATCH];
    let mut round = || {
        let mut source = source.snapshot();
        let begin = Instant::now();
        for _ in 0..REFERENCES / BATCH {
            assert_eq!(source.fill(&mut batch), BATCH);
            black_box(&batch);
        }
        begin.elapsed().as_secs_f64() * 1e9 / REFERENCES as f64
    };
    (0..ROUNDS).map(|_| round()).fold(f64::INFINITY, f64::min)
}

fn trace_of(source: &mut dyn Source) -> Result<memtint_workload::TraceSource, Box<dyn std::error::Error>> {
    let path = std::env::temp_dir().join(format!("memtint-bench-{}.trace", std::process::id()));
    let mut writer = TraceWriter::create(&path, &TraceHeader::named("bench"))?;
    for _ in 0..REFERENCES {
        writer.push(0, &source.next().ok_or("a program never ends")?)?;
    }
    writer.finish(None, Vec::new())?;
    let bytes = std::fs::read(&path)?;
    std::fs::remove_file(&path)?;
    Ok(TraceFile::from_bytes(bytes, "bench")?.source(0))
}
