//! The integration tests of `memtint-cli`, in one program that is linked once.

mod analyze;
mod bandwidth;
mod decode;
mod dram;
#[path = "../shared/fields.rs"]
mod fields;
mod golden;
mod guard;
mod init;
mod inputs;
mod manual;
mod memguard_module;
mod messages;
mod probe;
mod program;
mod refresh;
mod refresh_copies;
mod refresh_simulate;
mod reproduce;
mod rooms;
mod schemas;
mod scratch;
#[path = "../shared/schemas.rs"]
mod shared;
mod sim;
mod stock_kernel;
mod system;
mod trace;
