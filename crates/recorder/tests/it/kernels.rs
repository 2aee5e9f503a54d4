//! Can the kernels of `crates/workload/kernels` be recorded, and do they make the references of their definitions?

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::missing;
use memtint_recorder::{RecordOptions, record};
use memtint_workload::{Kind, Reference, Source, TraceFile};

/// Compiles a kernel, runs it under the recorder, and gives its references.
fn recorded(kernel: &str, arguments: &[&str]) -> Vec<Reference> {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let program: PathBuf = directory.join(format!("kernel-{kernel}-{}", std::process::id()));
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../workload/kernels").join(format!("{kernel}.c"));
    let mut compiler = Command::new("cc");
    compiler
        .args(["-O1", "-fno-tree-vectorize", "-Wall", "-Wextra", "-Werror", "-static", "-o"])
        .arg(&program)
        .arg(source);
    assert!(compiler.status().unwrap().success(), "{kernel}");
    let output = program.with_extension("trace");
    let mut options = RecordOptions::new(program.as_os_str(), &output);
    options.arguments = arguments.iter().map(Into::into).collect();
    let recording = record(&options, |_| {}).unwrap();
    // Each verifies its own result.
    assert_eq!(recording.status.code(), Some(0), "{kernel}");
    let file = TraceFile::open(&output).unwrap();
    file.verify().unwrap();
    let mut source = file.source(0);
    let all: Vec<Reference> = std::iter::from_fn(|| source.next()).collect();
    assert!(source.failure().is_none());
    std::fs::remove_file(output).unwrap();
    std::fs::remove_file(program).unwrap();
    all
}

#[test]
fn each_kernel_is_recorded_and_finds_its_result_right() {
    if missing() {
        return;
    }
    for (kernel, arguments, least) in [
        // Two loads a tap and product, and as many and a store to learn.
        ("lms", ["1000", "16"], 984 * 16 * 5),
        // Each byte is written, compressed, and written again.
        ("compress", ["5000", ""], 5000 * 3),
        ("cnt", ["60", "2"], 60 * 60 * 2 * 2),
        // Written once; read for the mean, the variance, and the correlation.
        ("st", ["2000", ""], 2000 * 2 * 4),
        ("matmult", ["20", ""], 20 * 20 * 20 * 2),
    ] {
        let arguments: Vec<&str> = arguments.into_iter().filter(|argument| !argument.is_empty()).collect();
        let found = recorded(kernel, &arguments).len();
        assert!(found >= least, "{kernel}: {found}, at least {least}");
    }
}

/// A row of the first matrix goes up by 8 bytes while a column of the second goes up by a row.
#[test]
fn matrices_are_multiplied_row_by_column() {
    if missing() {
        return;
    }
    const SIDE: u64 = 24;
    let all = recorded("matmult", &["24"]);
    let reads: Vec<u64> =
        all.iter().filter(|access| access.kind == Kind::Read && access.bytes == 8).map(|access| access.addr).collect();
    let steps = |first: u64, second: u64| {
        // The two loads of an inner step stand side by side, in either order.
        let pairs = reads.windows(4);
        pairs.filter(|four| four[2].wrapping_sub(four[0]) == first && four[3].wrapping_sub(four[1]) == second).count()
            as u64
    };
    let inner = steps(8, 8 * SIDE).max(steps(8 * SIDE, 8));
    let expected = SIDE * SIDE * (SIDE - 1);
    assert!((expected..expected + SIDE * SIDE).contains(&inner), "{inner}, expected {expected}");
}
