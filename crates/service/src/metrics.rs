//! The numbers of a regulator as OpenMetrics, over HTTP.
//!
//! A separate unprivileged process reads the data from the socket: the regulator sends it a status now and then, and receives nothing from
//! it.

use std::convert::Infallible;
use std::fmt;
use std::io::{self, BufRead as _, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::str::FromStr;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::{self, Receiver, SyncSender, TrySendError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use hyper::header::{ALLOW, CONTENT_TYPE};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use memtint_regulator::Snapshot;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Semaphore;

use crate::error::ServiceError;
use crate::report::Row;
use crate::status::Status;

/// Where numbers are served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// An address of this machine alone.
    Loopback(SocketAddr),
    /// A socket, by its absolute path.
    Unix(PathBuf),
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Address, String> {
        if text.starts_with('/') {
            return Ok(Address::Unix(text.into()));
        }
        match text.parse::<SocketAddr>() {
            Ok(address) if address.ip().is_loopback() => Ok(Address::Loopback(address)),
            _ => Err("accepted is a loopback address with its port (127.0.0.1:9464, [::1]:9464), or an absolute path"
                .to_owned()),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Loopback(address) => address.fmt(formatter),
            Address::Unix(path) => path.display().fmt(formatter),
        }
    }
}

/// The user of the serving process: 65534, which has no files or privileges.
pub(crate) const USER: u32 = 65534;
const READY: &str = "ready\n";
const STACK_BYTES: usize = 64 << 10;

// --- in the regulator ---

/// The serving process; dropping this ends it.
#[derive(Debug)]
pub struct Exporter {
    process: Child,
    statuses: SyncSender<String>,
    address: Address,
}

impl Exporter {
    /// Starts the process, and waits until its socket exists. The program with these arguments, followed by the address, must call
    /// [`serve_metrics`].
    ///
    /// # Errors
    /// [`ServiceError::Metrics`] for an address that is taken, or that the kernel refuses.
    pub fn start(address: &Address, program: &Path, arguments: &[&str]) -> Result<Exporter, ServiceError> {
        let failed = |reason: String| ServiceError::Metrics { address: address.to_string(), reason };
        let mut process = Command::new(program)
            .args(arguments)
            .arg(address.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .current_dir("/")
            .spawn()
            .map_err(|error| failed(error.to_string()))?;
        let (Some(input), Some(mut output)) = (process.stdin.take(), process.stdout.take()) else {
            return Err(failed("its process has no pipes".to_owned()));
        };
        let mut answer = String::new();
        output.read_to_string(&mut answer).map_err(|error| failed(error.to_string()))?;
        if answer != READY {
            // The process has reported the reason.
            let _ = process.wait();
            return Err(failed("numbers cannot be served there".to_owned()));
        }
        // Do not wait for a status that has not been taken yet.
        let (statuses, sent) = mpsc::sync_channel(1);
        std::thread::Builder::new()
            .name("metrics".to_owned())
            .stack_size(STACK_BYTES)
            .spawn(move || send_all(input, &sent))
            .map_err(|error| failed(error.to_string()))?;
        Ok(Exporter { process, statuses, address: address.clone() })
    }

    /// Sends a status. Returns false if the process has ended.
    pub fn send(&self, status: String) -> bool {
        !matches!(self.statuses.try_send(status), Err(TrySendError::Disconnected(_)))
    }
}

fn send_all(mut input: ChildStdin, statuses: &Receiver<String>) {
    for mut status in statuses {
        status.push('\n');
        if input.write_all(status.as_bytes()).is_err() {
            return;
        }
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
        if let Address::Unix(path) = &self.address {
            // Another process may have removed it.
            let _ = std::fs::remove_file(path);
        }
    }
}

// --- in the process that serves ---

/// The latest status, and when it came.
type Latest = Arc<Mutex<Option<(Status, Instant)>>>;

/// Older statuses are not served.
const FRESH: Duration = Duration::from_secs(5);
/// Connections at a time; others wait.
const CONNECTIONS_MAX: usize = 16;
const RETRY: Duration = Duration::from_millis(100);
const CONNECT_TIME: Duration = Duration::from_secs(1);
const CONNECTION_TIME: Duration = Duration::from_secs(5);
const REQUEST_BYTES_MAX: usize = 8 << 10;

enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// Serves the statuses that come on standard input, without privileges, until that ends.
///
/// # Errors
/// [`ServiceError::Metrics`] for an address that is taken, or that the kernel refuses.
pub fn serve_metrics(address: &Address) -> Result<(), ServiceError> {
    let failed = |error: io::Error| ServiceError::Metrics { address: address.to_string(), reason: error.to_string() };
    let listener = bind(address).map_err(failed)?;
    leave_privileges().map_err(failed)?;
    let latest = Latest::default();
    let read = Arc::clone(&latest);
    std::thread::spawn(move || {
        read_all(&read);
        // The regulator has ended.
        std::process::exit(0);
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
    runtime.block_on(serve(listener, latest)).map_err(failed)
}

fn bind(address: &Address) -> io::Result<Listener> {
    let path = match address {
        Address::Loopback(address) => {
            let listener = TcpListener::bind(address)?;
            listener.set_nonblocking(true)?;
            return Ok(Listener::Tcp(listener));
        }
        Address::Unix(path) => path,
    };
    if is_left_over(path) {
        std::fs::remove_file(path)?;
    }
    // The numbers are not secret; the mode of the folder decides access to the socket. It gets its mode when it is made: a moment
    // later, the name may stand for a file of another user.
    // SAFETY: the call takes a number; no other thread creates files.
    let before = unsafe { libc::umask(0o111) };
    let listener = UnixListener::bind(path);
    // SAFETY: as above.
    unsafe { libc::umask(before) };
    let listener = listener?;
    listener.set_nonblocking(true)?;
    Ok(Listener::Unix(listener))
}

/// A socket without a listener, as a killed process leaves it.
fn is_left_over(path: &Path) -> bool {
    if !std::fs::symlink_metadata(path).is_ok_and(|data| data.file_type().is_socket()) {
        return false;
    }
    // If another process listens, this connection may wait forever.
    let (answer, answered) = mpsc::channel();
    let path = path.to_owned();
    std::thread::spawn(move || answer.send(UnixStream::connect(path).err().map(|error| error.kind())));
    answered.recv_timeout(CONNECT_TIME) == Ok(Some(io::ErrorKind::ConnectionRefused))
}

/// Keeps what is open, but for the terminal: standard error is the null device from here on.
fn leave_privileges() -> io::Result<()> {
    let checked = |result: libc::c_int| if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) };
    // Version 3 of the structures of capset(2): this thread, and no capability in three sets of two words.
    let (header, none) = ([0x2008_0522_u32, 0], [0_u32; 6]);
    // SAFETY: these take numbers, an empty list, and structures that outlive the call.
    unsafe {
        checked(libc::setsid())?;
        checked(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))?;
        if libc::geteuid() == 0 {
            checked(libc::setgroups(0, std::ptr::null()))?;
            checked(libc::setresgid(USER, USER, USER))?;
            checked(libc::setresuid(USER, USER, USER))?;
        }
        checked(libc::prctl(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0))?;
        checked(libc::syscall(libc::SYS_capset, header.as_ptr(), none.as_ptr()) as libc::c_int)?;
    }
    io::stdout().write_all(READY.as_bytes())?;
    io::stdout().flush()?;
    // SAFETY: the regulator reads until the end; nothing is written to either any more, and the null device takes their place.
    unsafe {
        let null = libc::open(c"/dev/null".as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
        checked(null)?;
        checked(libc::dup2(null, libc::STDERR_FILENO))?;
        checked(libc::dup2(null, libc::STDOUT_FILENO))
    }
}

/// Reads statuses until standard input ends.
fn read_all(latest: &Latest) {
    for line in io::stdin().lock().lines().map_while(Result::ok) {
        if let Ok(status) = serde_json::from_str(&line) {
            *latest.lock().unwrap_or_else(PoisonError::into_inner) = Some((status, Instant::now()));
        }
    }
}

trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

enum Accepting {
    Tcp(tokio::net::TcpListener),
    Unix(tokio::net::UnixListener),
}

async fn serve(listener: Listener, latest: Latest) -> io::Result<()> {
    let accepting = match listener {
        Listener::Tcp(listener) => Accepting::Tcp(tokio::net::TcpListener::from_std(listener)?),
        Listener::Unix(listener) => Accepting::Unix(tokio::net::UnixListener::from_std(listener)?),
    };
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let place = Arc::clone(&places).acquire_owned().await.map_err(io::Error::other)?;
        let accepted: io::Result<Box<dyn Stream>> = match &accepting {
            Accepting::Tcp(listener) => listener.accept().await.map(|(stream, _)| Box::new(stream) as _),
            Accepting::Unix(listener) => listener.accept().await.map(|(stream, _)| Box::new(stream) as _),
        };
        match accepted {
            Ok(stream) => drop(tokio::spawn(connection(stream, Arc::clone(&latest), place))),
            // A connection that was given up, or too many files: it is tried again.
            Err(_) => tokio::time::sleep(RETRY).await,
        }
    }
}

async fn connection(stream: Box<dyn Stream>, latest: Latest, _place: tokio::sync::OwnedSemaphorePermit) {
    let service = service_fn(move |request| {
        let latest = Arc::clone(&latest);
        async move { Ok::<_, Infallible>(answer(&request, &latest)) }
    });
    let connection = http1::Builder::new()
        .keep_alive(false)
        .max_buf_size(REQUEST_BYTES_MAX)
        .timer(TokioTimer::new())
        .header_read_timeout(CONNECTION_TIME)
        .serve_connection(TokioIo::new(stream), service);
    // Malformed and slow requests are not reported.
    let _ = tokio::time::timeout(CONNECTION_TIME, connection).await;
}

fn answer<B>(request: &Request<B>, latest: &Latest) -> Response<String> {
    let plain = |code: StatusCode, text: &str| {
        let mut response = Response::new(format!("{text}\n"));
        *response.status_mut() = code;
        response
    };
    if request.uri().path() != "/metrics" {
        return plain(StatusCode::NOT_FOUND, "the numbers are at /metrics");
    }
    if request.method() != Method::GET && request.method() != Method::HEAD {
        let mut response = plain(StatusCode::METHOD_NOT_ALLOWED, "accepted is GET");
        response.headers_mut().insert(ALLOW, hyper::header::HeaderValue::from_static("GET, HEAD"));
        return response;
    }
    let latest = latest.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let Some((status, _)) = latest.filter(|(_, came)| came.elapsed() < FRESH) else {
        return plain(StatusCode::SERVICE_UNAVAILABLE, "the regulator has not reported for 5 s, or tests itself still");
    };
    let mut text = String::new();
    if prometheus_client::encoding::text::encode(&mut text, &registry(&status)).is_err() {
        return plain(StatusCode::INTERNAL_SERVER_ERROR, "the numbers cannot be written");
    }
    let mut response = Response::new(text);
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    response.headers_mut().insert(CONTENT_TYPE, hyper::header::HeaderValue::from_static(kind));
    response
}

type Labels = Vec<(&'static str, String)>;

/// The numbers of a status, in base units.
fn registry(status: &Status) -> Registry {
    let mut registry = Registry::with_prefix("memtint_guard");
    let regulated = &status.regulated;
    let about: Labels = vec![
        ("backend", status.backend.name().to_owned()),
        ("event", regulated.sensor.name.clone()),
        ("version", env!("CARGO_PKG_VERSION").to_owned()),
    ];
    registry.register("regulator", "What is counted, and where it is decided", Info::new(about));
    let gauge = |registry: &mut Registry, name: &str, help: &str, unit: Unit, value: f64| {
        let gauge = Gauge::<f64, AtomicU64>::default();
        gauge.set(value);
        registry.register_with_unit(name, help, unit, gauge);
    };
    gauge(&mut registry, "period", "Length of a period", Unit::Seconds, regulated.period_ns as f64 / 1e9);
    gauge(&mut registry, "regulated", "Time since the self-test", Unit::Seconds, status.seconds);
    if let Some(bytes) = regulated.sensor.event_bytes {
        gauge(&mut registry, "event", "What an event moves", Unit::Bytes, bytes.into());
    }
    let (budget, bound) = (Family::<Labels, Gauge>::default(), Family::<Labels, Gauge>::default());
    for group in &regulated.groups {
        let labels = vec![("group", group.name.clone())];
        budget.get_or_create(&labels).set(group.budget.into());
        bound.get_or_create(&labels).set(i64::try_from(group.bound).unwrap_or(i64::MAX));
    }
    registry.register("budget_events", "Budget of the group in each period, on all of its CPUs", budget);
    registry.register("bound_events", "Most events of a period, on all of the group's CPUs", bound);
    type Sum = (&'static str, &'static str, fn(&Snapshot) -> u64);
    let sums: [Sum; 10] = [
        ("periods", "Periods that have ended", |sums| sums.periods),
        ("events", "Events used", |sums| sums.used),
        ("granted_events", "Events granted", |sums| sums.granted),
        ("donated_events", "Events donated to others", |sums| sums.donated),
        ("returned_events", "Donated events that the group has taken back", |sums| sums.returned),
        ("reclaimed_events", "Events that others had donated", |sums| sums.reclaimed),
        ("throttled_periods", "Periods in which the group was stopped", |sums| sums.throttled_periods),
        ("underrun_periods", "Periods in which the group could not take back all that it had donated", |sums| {
            sums.underruns
        }),
        ("missing_events", "Events that were missing in them", |sums| sums.shortfall),
        ("broken_periods", "Periods that do not show that the bound was kept", |sums| sums.broken),
    ];
    let labels = |row: &Row| vec![("group", row.name.clone()), ("cpu", row.sums.cpu.to_string())];
    for (name, help, of) in sums {
        let family = Family::<Labels, Counter>::default();
        for row in &status.sums {
            family.get_or_create(&labels(row)).inc_by(of(&row.sums));
        }
        registry.register(name, help, family);
    }
    let throttled = Family::<Labels, Counter<f64, AtomicU64>>::default();
    for row in &status.sums {
        throttled.get_or_create(&labels(row)).inc_by(row.sums.throttled_ns as f64 / 1e9);
    }
    registry.register_with_unit("throttled", "Time for which the group was stopped", Unit::Seconds, throttled);
    registry
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_other_machines_are_refused() {
        for text in ["127.0.0.1:9464", "[::1]:9464", "/run/memtint.sock"] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
        }
        for text in ["0.0.0.0:9464", "192.168.0.1:1", "[::]:9464", "localhost", "9464", "memtint.sock", ""] {
            let error = text.parse::<Address>().unwrap_err();
            assert!(error.contains("loopback"), "{error}");
        }
    }
}
