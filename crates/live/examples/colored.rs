//! Runs a program in frames whose number has given bits: `colored MASK VALUE -- COMMAND ...`.
use memtint_live::{Floor, FrameChoice, RunOptions};
use memtint_units::Pfn;

struct Bits {
    mask: u64,
    value: u64,
}

impl FrameChoice for Bits {
    fn contains(&self, Pfn(frame): Pfn) -> bool {
        frame & self.mask == self.value
    }
    fn looks_per_page(&self) -> f64 {
        f64::from(1u32 << self.mask.count_ones())
    }
    fn label(&self) -> String {
        format!("frames with bits {:#x} = {:#x}", self.mask, self.value)
    }
}

fn main() {
    let arguments: Vec<_> = std::env::args_os().collect();
    let number = |index: usize| arguments[index].to_str().and_then(|text| text.parse().ok()).expect("a number");
    let options = RunOptions {
        command: arguments[4..].to_vec(),
        choice: Box::new(Bits { mask: number(1), value: number(2) }),
        strict: std::env::var_os("STRICT").is_some(),
        cores: None,
        cgroup: None,
        user: std::env::var("AS_USER").ok(),
        floor: Floor::User { prefault_bytes: 0, children: true, copy_files: false, search_bytes: 1 << 30 },
        started: None,
        ended: None,
    };
    match memtint_live::run(options, |line| eprintln!("memtint: {line}")) {
        Ok(status) => {
            if std::env::var_os("REPORT").is_some() {
                eprintln!("{}", serde_json::to_string_pretty(&status.report).expect("the report is plain data"));
            }
            std::process::exit(status.code)
        }
        Err(error) => {
            eprintln!("memtint: {error}");
            std::process::exit(125)
        }
    }
}
