//! What `memtint guard --metrics` serves, and what its process may do.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use super::{Guard, LOAD_MS, Load, Machine, assert_kept, number, refused};
use crate::common::within;

/// A request and the whole answer.
fn ask(mut stream: impl Read + Write, request: &str) -> String {
    stream.write_all(request.as_bytes()).expect("the other side reads");
    let mut answer = String::new();
    // What is no request may end in a reset.
    let _ = stream.read_to_string(&mut answer);
    answer
}

const GET: &str = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";

fn is_served(socket: &PathBuf) -> bool {
    UnixStream::connect(socket).is_ok_and(|stream| ask(stream, GET).starts_with("HTTP/1.1 200"))
}

/// Children of the regulator that serve.
fn exporters(guard: &Guard) -> Vec<u32> {
    let children = format!("/proc/{0}/task/{0}/children", guard.process.id());
    let children = std::fs::read_to_string(children).expect("the kernel lists children");
    let of = |child: &str| {
        let line = std::fs::read_to_string(format!("/proc/{child}/cmdline")).unwrap_or_default();
        line.contains("\0guard\0metrics\0").then(|| child.parse().ok())?
    };
    children.split_whitespace().filter_map(of).collect()
}

#[test]
fn numbers_are_served_by_a_process_without_privileges() {
    let Some(machine) = Machine::take() else { return };
    let socket = std::env::temp_dir().join(format!("memtint-metrics-{}", std::process::id()));
    // As a killed regulator leaves it.
    drop(std::os::unix::net::UnixListener::bind(&socket).expect("a writable directory"));
    let path = socket.to_str().expect("text");
    let guard = Guard::start(&["--group", &machine.group("100ev"), "--metrics", path]);
    let mut load = Load::start(&machine.cpu, LOAD_MS);
    load.begin_in(&machine, "test");
    load.end();
    assert!(within(Duration::from_secs(30), || is_served(&socket)));
    let answer = ask(UnixStream::connect(&socket).expect("it listens"), GET);
    let (head, text) = answer.split_once("\r\n\r\n").expect("a head and a text");
    assert!(head.contains("content-type: application/openmetrics-text; version=1.0.0; charset=utf-8"), "{head}");
    let cpu = &machine.cpu;
    for line in [
        "# TYPE memtint_guard_events counter".to_owned(),
        "# UNIT memtint_guard_throttled_seconds seconds".to_owned(),
        "memtint_guard_period_seconds 0.001".to_owned(),
        "memtint_guard_budget_events{group=\"test\"} 100".to_owned(),
        "memtint_guard_bound_events{group=\"test\"} 125".to_owned(),
        format!("memtint_guard_broken_periods_total{{group=\"test\",cpu=\"{cpu}\"}} 0"),
    ] {
        assert!(text.lines().any(|other| other == line), "{line}: {text}");
    }
    assert!(text.ends_with("# EOF\n"), "{text}");
    let used = format!("memtint_guard_events_total{{group=\"test\",cpu=\"{cpu}\"}} ");
    let used = text.lines().find_map(|line| line.strip_prefix(&used)).expect("a number");
    assert!(used.parse::<u64>().expect("a number") > 0);
    // Nothing but numbers, and not for long.
    for (request, code) in [
        ("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", "404"),
        ("POST /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\nabc", "405"),
        ("\0\u{1}nonsense\r\n\r\n", "400"),
    ] {
        let answer = ask(UnixStream::connect(&socket).expect("it listens"), request);
        assert!(answer.starts_with(&format!("HTTP/1.1 {code}")), "{request:?}: {answer}");
    }
    let long = format!("GET /{} HTTP/1.1\r\n", "x".repeat(100_000));
    let mut stream = UnixStream::connect(&socket).expect("it listens");
    let _ = stream.write_all(long.as_bytes());
    // More than are served at a time: they are given up, and others come.
    let silent: Vec<UnixStream> = (0..40).map(|_| UnixStream::connect(&socket).expect("it listens")).collect();
    assert!(within(Duration::from_secs(60), || is_served(&socket)));
    drop((silent, stream));
    let [exporter] = exporters(&guard)[..] else { panic!("{:?}", exporters(&guard)) };
    let status = std::fs::read_to_string(format!("/proc/{exporter}/status")).expect("it runs");
    for line in ["Uid:\t65534\t65534\t65534\t65534", "Gid:\t65534\t65534\t65534\t65534", "NoNewPrivs:\t1", "Groups:\t "]
    {
        assert!(status.lines().any(|other| other == line), "{line:?}: {status}");
    }
    let none = |kind: &str| status.contains(&format!("{kind}:\t0000000000000000"));
    assert!(["CapPrm", "CapEff", "CapAmb"].into_iter().all(none), "{status}");
    let ended = guard.end();
    assert_kept(&ended);
    assert!(number(&ended.0, 0, "used") >= used.parse().expect("a number"));
    assert!(!socket.exists());
}

#[test]
fn regulation_goes_on_without_its_exporter() {
    let Some(machine) = Machine::take() else { return };
    // Free a moment ago.
    let port = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("loopback").port();
    let address = format!("127.0.0.1:{port}");
    let guard = Guard::start(&["--group", &machine.group("100ev"), "--metrics", &address]);
    let is_served = || TcpStream::connect(&address).is_ok_and(|stream| ask(stream, GET).starts_with("HTTP/1.1 200"));
    assert!(within(Duration::from_secs(30), is_served));
    let [exporter] = exporters(&guard)[..] else { panic!("{:?}", exporters(&guard)) };
    super::signal(exporter, libc::SIGKILL);
    let mut load = Load::start(&machine.cpu, LOAD_MS);
    load.begin_in(&machine, "test");
    load.end();
    assert_kept(&guard.end());
}

#[test]
fn an_address_that_is_taken_is_refused_before_anything_is_regulated() {
    let Some(machine) = Machine::take() else { return };
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let address = listener.local_addr().expect("it is bound").to_string();
    let error = refused(&["--group", &machine.group("100ev"), "--metrics", &address]);
    assert!(error.contains(&address) && error.contains("in use"), "{error}");
    assert!(!machine.groups.exists());
    let file = crate::common::scratch("no-socket");
    std::fs::write(&file, "precious").expect("cargo made the directory");
    let error = refused(&["--group", &machine.group("100ev"), "--metrics", file.to_str().expect("text")]);
    assert!(error.contains("in use"), "{error}");
    assert_eq!(std::fs::read_to_string(&file).expect("it is there still"), "precious");
}
