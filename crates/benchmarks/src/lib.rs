//! The benchmarks of memtint's parts, their baselines, and their typed reports.
//!
//! Each module measures one part against a baseline: a plain implementation that must give the same answers, a
//! published system, or the part without one of its steps. A module has a struct of parameters, a measuring function,
//! and a report whose JSON Schema follows from its type. Targets belong to the measurement; a report states whether
//! they are met.
//!
//! The crate parses no arguments, prints nothing and draws no tables. It reports progress to a function of the caller.
//! The harness, `memtint-bench`, interleaves runs and computes confidence intervals.
//!
//! Types to know: [`sim::SimReport`] and its siblings; [`Benchmark`], which names them; [`BenchmarkError`].

mod error;
pub mod frames;
pub mod guard;
pub mod guard_live;
pub mod probe;
pub mod run;
pub mod sched;
pub mod sim;
pub mod touch;
mod words;

pub use error::BenchmarkError;
pub use words::Benchmark;

#[cfg(test)]
mod tests {
    use schemars::JsonSchema;
    use schemars::generate::SchemaSettings;

    use super::*;

    fn schema_of<T: JsonSchema>(benchmark: Benchmark) {
        let schema = SchemaSettings::draft2020_12().for_serialize().into_generator().into_root_schema_for::<T>();
        let bench = schema.pointer("/properties/bench/const").and_then(serde_json::Value::as_str);
        assert_eq!(bench, Some(benchmark.name()));
        assert_eq!(schema.pointer("/properties/schema/type").and_then(serde_json::Value::as_str), Some("integer"));
    }

    #[test]
    fn each_report_has_a_schema_that_names_its_benchmark() {
        schema_of::<frames::FramesReport>(Benchmark::Frames);
        schema_of::<sim::SimReport>(Benchmark::Sim);
        schema_of::<sched::SchedReport>(Benchmark::Sched);
        schema_of::<guard::GuardReport>(Benchmark::Guard);
        schema_of::<guard_live::GuardLiveReport>(Benchmark::GuardLive);
        schema_of::<probe::ProbeReport>(Benchmark::Probe);
        schema_of::<probe::ablation::AblationReport>(Benchmark::ProbeAblation);
        schema_of::<run::RunReport>(Benchmark::Run);
    }
}
