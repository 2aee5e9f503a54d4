//! Five real programs: whole runs, steady parts, memory, and equality of outputs.

use std::fmt::Write as _;
use std::fs::File;
use std::hash::{DefaultHasher, Hasher as _};
use std::io::{self, BufRead as _, BufReader, BufWriter, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use memtint_bench::{
    Ended, Finished, Job, Mark, Measured, Running, Session, Side, Stretch, Trouble, Unit, finish, line_up, race,
    take_turns,
};
use memtint_units::Random;

use super::groups::{PEAK, add_times, scramble_pages};

const GROUP: &str = "programs";
/// Name of the series of the first target.
pub const STEADY: &str = "steady part";
/// Name of the series of CPU time in the steady part.
pub(super) const STEADY_CPU: &str = "steady part, program's CPU";
/// Output lines that enclose the steady part, for programs that can print them.
const BEGINS: &str = "steady part begins";
const ENDS: &str = "steady part ends";

/// The programs and their steady parts.
pub(super) const PROGRAMS: [(&str, &str); 5] = [
    ("sqlite3", "queries over a filled database, each asked once before"),
    ("python3", "rounds of building, writing and reading a dictionary, after one round"),
    ("sort", "merging, from the first byte of output to the last; pieces in /dev/shm if there is one"),
    ("gzip", "from the first 2 MiB of output (--quick: 64 KiB) to the last"),
    ("redis-server", "SET and GET after an equal run of both (redis-benchmark)"),
];

/// Runs all of them.
pub(super) fn programs(session: &mut Session) {
    let said = Stretch { begin: Mark::Line(BEGINS), end: Mark::Line(ENDS) };
    let behind = |bytes| Stretch { begin: Mark::Bytes(bytes), end: Mark::End };
    let half = behind(if session.extent.quick { 64 << 10 } else { 2 << 20 });
    let steps: [(&'static str, &[&str], Prepare, Stretch); 4] = [
        ("sqlite3", &["/usr/bin/sqlite3"], sqlite3, said),
        ("python3", &["/usr/bin/python3"], python3, said),
        ("sort", &["/usr/bin/sort"], sort, behind(1)),
        ("gzip", &["/usr/bin/gzip", "/bin/gzip"], gzip, half),
    ];
    for (name, files, prepare, stretch) in steps {
        let Some(file) = present(session, name, files) else { continue };
        match prepare(session, file) {
            Ok(job) => program(session, name, &job, stretch),
            Err(error) => session.results.skipped.push(format!("programs {name}: cannot be prepared: {error}")),
        }
    }
    let server = present(session, "redis-server", &["/usr/bin/redis-server"]);
    let client = present(session, "redis-benchmark", &["/usr/bin/redis-benchmark"]);
    if let (Some(server), Some(client)) = (server, client) {
        redis(session, server, client);
    }
}

/// Makes the job, given the program's file.
type Prepare = fn(&Session, &str) -> io::Result<Job>;

fn present<'a>(session: &mut Session, name: &str, files: &[&'a str]) -> Option<&'a str> {
    let found = files.iter().find(|file| Path::new(file).exists()).copied();
    if found.is_none() {
        session.results.skipped.push(format!("programs {name}: there is no {}", files[0]));
    }
    found
}

/// Adds the times of the steady part on one side.
fn add_steady(session: &mut Session, name: &str, unit: Unit, scale: f64, lane: &Finished) {
    session.results.add(GROUP, name, (STEADY, unit), lane.side, lane.wall.as_secs_f64() * scale);
    if let Some(cpu) = lane.cpu {
        session.results.add(GROUP, name, (STEADY_CPU, unit), lane.side, cpu.as_secs_f64() * scale);
    }
}

/// Outputs of one program so far.
#[derive(Default)]
struct Outputs {
    native: Option<u64>,
    compared: bool,
    differ: bool,
}

impl Outputs {
    /// Records the output of one run; an error if it differs from that of the first native run.
    fn note(&mut self, output: u64) -> Result<(), Trouble> {
        let first = *self.native.get_or_insert(output);
        self.compared = true;
        self.differ |= first != output;
        if first == output { Ok(()) } else { Err("the output differs from that of the first native run".into()) }
    }

    fn conclude(self, session: &mut Session, name: &'static str) {
        if self.compared {
            session.results.outputs.push((name, !self.differ));
        }
    }
}

fn program(session: &mut Session, name: &'static str, job: &Job, stretch: Stretch) {
    let mut outputs = Outputs::default();
    let extent = (session.extent.repeat, scramble_pages(session.extent.quick));
    session.alternate((GROUP, name), &Side::BOTH, extent, |session, side| {
        let done = session.run(job, side)?;
        outputs.note(done.ended.output.hash)?;
        add_whole(session, name, side, &done);
        Ok(())
    });
    session.side_by_side((GROUP, name), extent, |session| {
        for lane in race(session, job, stretch)? {
            outputs.note(lane.done.ended.output.hash)?;
            add_steady(session, name, Unit::Milliseconds, 1e3, &lane);
        }
        Ok(())
    });
    outputs.conclude(session, name);
}

/// Times and memory of a whole run.
fn add_whole(session: &mut Session, name: &str, side: Side, done: &Measured) {
    add_times(session, (GROUP, name), side, done);
    let mut add = |measure, value| session.results.add("memory", name, (measure, Unit::Mebibytes), side, value);
    let mib = |kib: u64| kib as f64 / 1024.0;
    add(PEAK, mib(done.ended.usage.max_rss_kib));
    if let Some(pool) = &done.pool {
        add("of it pool, at the end", mib(pool.left_pages() * 4));
        add("broker, peak resident", mib(done.ended.entourage.broker.max_rss_kib));
        if let Some(kib) = done.ended.supervisor_rss_kib {
            add("supervisor, resident (sampled)", mib(kib));
        }
    }
}

// --- what they do ---

fn sqlite3(session: &Session, file: &str) -> io::Result<Job> {
    let rows = if session.extent.quick { 20_000 } else { 300_000 };
    let seed = session.seed % 1000;
    let mut script = format!(
        "PRAGMA temp_store=MEMORY;\nCREATE TABLE t(id INTEGER PRIMARY KEY, k INTEGER, s TEXT);\n\
         WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n+1 FROM c WHERE n<{rows})\n\
         INSERT INTO t SELECT n, (n*2654435761+{seed})%1000003, printf('row %d of the table', n*7919%{rows}) FROM c;\n\
         CREATE INDEX tk ON t(k);\n"
    );
    let queries = "SELECT count(*), sum(b.id) FROM t a JOIN t b ON b.k=(a.k*7+1)%1000003;\n\
         SELECT k%977 AS g, count(*), max(s) FROM t GROUP BY g ORDER BY 2 DESC, 1 LIMIT 5;\n\
         SELECT count(*), sum(id) FROM t WHERE s LIKE '%7 of%';\n";
    let _ = write!(script, "{queries}.print {BEGINS}\n{queries}{queries}{queries}.print {ENDS}\n");
    let path = session.work.path("script.sql");
    std::fs::write(&path, script)?;
    Ok(Job { input: Some(path), ..Job::new([file, "-batch", ":memory:"]) })
}

fn python3(session: &Session, file: &str) -> io::Result<Job> {
    let (words, rounds) = if session.extent.quick { (10_000, 2) } else { (100_000, 6) };
    let seed = session.seed;
    let script = format!(
        "import json, random\n\
         source = random.Random({seed})\n\
         words = [str(source.random()) for _ in range({words})]\n\
         def once():\n\
         \x20   text = json.dumps({{word: at for at, word in enumerate(words)}}, sort_keys=True)\n\
         \x20   return sum(json.loads(text).values()) + len(text)\n\
         total = once()\n\
         print('{BEGINS}', flush=True)\n\
         for _ in range({rounds}):\n\
         \x20   total += once()\n\
         print('{ENDS}', flush=True)\n\
         print(total)\n"
    );
    let path = session.work.path("script.py");
    std::fs::write(&path, script)?;
    Ok(Job::new([file.into(), path.into_os_string()]))
}

fn sort(session: &Session, file: &str) -> io::Result<Job> {
    let input = text_file(session, "sort.txt", if session.extent.quick { 4 << 20 } else { 96 << 20 })?;
    let buffer = if session.extent.quick { "1M" } else { "16M" };
    // In memory where possible: the time to write sorted pieces to a disk is unpredictable.
    let memory = Path::new("/dev/shm");
    let pieces = if memory.is_dir() { memory } else { session.work.directory() };
    let mut job = Job::new([file, "--parallel=1", "-S", buffer, "-T"]);
    job.words.extend([pieces.as_os_str().to_owned(), input.into_os_string()]);
    Ok(job)
}

fn gzip(session: &Session, file: &str) -> io::Result<Job> {
    let input = text_file(session, "gzip.txt", if session.extent.quick { 2 << 20 } else { 40 << 20 })?;
    let mut job = Job::new([file, "-6", "-c"]);
    job.words.push(input.into_os_string());
    Ok(job)
}

/// A file of words in lines, as the seed determines.
fn text_file(session: &Session, name: &str, bytes: u64) -> io::Result<PathBuf> {
    const WORDS: usize = 4096;
    let path = session.work.path(name);
    let mut random = Random::new(session.seed);
    let letters = |mut bits: u64, length: usize| {
        std::iter::repeat_with(move || {
            let letter = b'a' + (bits % 26) as u8;
            bits /= 26;
            letter
        })
        .take(length)
        .collect::<Vec<u8>>()
    };
    let words: Vec<Vec<u8>> = (0..WORDS).map(|at| letters(random.bits(), 2 + at % 9)).collect();
    let mut file = BufWriter::new(File::create(&path)?);
    let mut written = 0;
    while written < bytes {
        for at in 0..10 {
            // Some words are far more frequent than others, as in natural text.
            let limit = 1 + random.index(WORDS);
            let word = &words[random.index(limit)];
            file.write_all(word)?;
            file.write_all(if at == 9 { b"\n" } else { b" " })?;
            written += word.len() as u64 + 1;
        }
    }
    file.flush()?;
    Ok(path)
}

// --- redis ---

fn redis(session: &mut Session, server: &str, client: &str) {
    const NAME: &str = "redis-server";
    let socket_of = |session: &Session, side: Side| session.work.path(&format!("redis-{}.sock", side.name()));
    let job_of = |socket: &Path| {
        let mut job = Job::new([server, "--port", "0", "--save", "", "--appendonly", "no", "--unixsocket"]);
        job.words.push(socket.as_os_str().to_owned());
        // The previous server has removed it, unless it was killed.
        let _ = std::fs::remove_file(socket);
        job
    };
    let mut outputs = Outputs::default();
    let extent = (session.extent.repeat, scramble_pages(session.extent.quick));
    session.alternate((GROUP, NAME), &Side::BOTH, extent, |session, side| {
        let socket = socket_of(session, side);
        let job = job_of(&socket);
        let before = Instant::now();
        let running = session.start(&job, side)?;
        let served = serve(session, &socket, client, before);
        // A server needs a moment to shut down; one that does not shut down is killed after the limit.
        let ended = served.and_then(|served| Ok((served, session.finish(running)?)));
        let (served, done) = ended?;
        outputs.note(served.answers)?;
        session.results.add(GROUP, NAME, ("start until it answers", Unit::Milliseconds), side, served.ready_ms);
        add_whole(session, NAME, side, &done);
        Ok(())
    });
    session.side_by_side((GROUP, NAME), extent, |session| {
        let sockets = Side::ALL.map(|side| socket_of(session, side));
        let socket = |side: Side| &sockets[side as usize];
        let mut lanes = line_up(
            session,
            |side| job_of(socket(side)),
            |session, side, _| {
                connect(socket(side), Instant::now(), session.extent.limit)?;
                ask(session, socket(side), client)?.finish_alone(session.extent.limit)?;
                Ok(())
            },
        )?;
        let mut clients = Vec::new();
        for side in Side::ALL {
            clients.push(ask(session, socket(side), client)?);
        }
        take_turns(session, &mut lanes, |lane, limit| Ok(clients[lane.side as usize].ends_within(limit)))?;
        for client in clients {
            answered(client.finish_alone(session.extent.limit)?)?;
        }
        for lane in &lanes {
            lane.release();
            let mut connection = connect(socket(lane.side), Instant::now(), session.extent.limit)?;
            outputs.note(answers(&mut connection)?)?;
        }
        for lane in finish(session, lanes)? {
            add_steady(session, NAME, Unit::MicrosecondsPerRequest, 1e6 / (2 * requests(session)) as f64, &lane);
        }
        Ok(())
    });
    outputs.conclude(session, NAME);
}

struct Served {
    ready_ms: f64,
    /// Hash of the responses to queries with known results.
    answers: u64,
}

/// Runs a client against a server, checks responses, and shuts the server down.
fn serve(session: &Session, socket: &Path, client: &str, started: Instant) -> Result<Served, Trouble> {
    let mut connection = connect(socket, started, session.extent.limit)?;
    let ready_ms = started.elapsed().as_secs_f64() * 1e3;
    answered(ask(session, socket, client)?.finish_alone(session.extent.limit)?)?;
    Ok(Served { ready_ms, answers: answers(&mut connection)? })
}

/// Returns a hash of the server's responses to queries with known results, and shuts it down.
fn answers(connection: &mut UnixStream) -> Result<u64, Trouble> {
    let failed = |error: io::Error| Trouble::from(format!("the server does not answer: {error}"));
    let answers = question(connection).map_err(failed)?;
    connection.write_all(b"SHUTDOWN NOSAVE\r\n").map_err(failed)?;
    Ok(answers)
}

/// Connects to a server and waits until it responds.
fn connect(socket: &Path, started: Instant, limit: Duration) -> Result<UnixStream, Trouble> {
    loop {
        if let Ok(mut connection) = UnixStream::connect(socket) {
            let wait = Some(Duration::from_secs(10));
            let set = connection.set_read_timeout(wait).and_then(|()| connection.set_write_timeout(wait));
            let mut answer = [0; 7];
            let asked = set.and_then(|()| connection.write_all(b"PING\r\n"));
            if asked.and_then(|()| connection.read_exact(&mut answer)).is_ok() && &answer == b"+PONG\r\n" {
                return Ok(connection);
            }
        }
        if started.elapsed() > limit {
            return Err(Trouble { hung: true, reason: "the server did not answer in time".to_owned() });
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Requests of each kind.
fn requests(session: &Session) -> u64 {
    if session.extent.quick { 10_000 } else { 150_000 }
}

/// Starts a client that stores and reads values.
fn ask(session: &Session, socket: &Path, client: &str) -> Result<Running, Trouble> {
    let mut command = Command::new(client);
    command.arg("-s").arg(socket).args(["-t", "set,get", "-P", "16", "-d", "256", "-r", "50000", "--csv", "-n"]);
    command.arg(requests(session).to_string()).stderr(std::process::Stdio::null());
    Ok(Running::start(command)?)
}

/// Checks that a client has completed both kinds.
fn answered(client: Ended) -> Result<(), Trouble> {
    let text = String::from_utf8_lossy(&client.output.text);
    let done = |what: &str| text.lines().any(|line| line.starts_with(what));
    match client.status.success() && done("\"SET\"") && done("\"GET\"") {
        true => Ok(()),
        false => Err("redis-benchmark did not get through".into()),
    }
}

/// Stores values, reads them, and hashes the responses.
fn question(connection: &mut UnixStream) -> io::Result<u64> {
    const KEYS: u64 = 2000;
    let mut reader = BufReader::new(connection.try_clone()?);
    let mut hasher = DefaultHasher::new();
    let mut line = Vec::new();
    for key in 0..KEYS {
        let value = "v".repeat(1 + (key * 37 % 700) as usize);
        connection.write_all(format!("SET bench:{key} {value}{key}\r\n").as_bytes())?;
        line.clear();
        reader.read_until(b'\n', &mut line)?;
        hasher.write(&line);
    }
    for key in 0..KEYS {
        connection.write_all(format!("GET bench:{key}\r\n").as_bytes())?;
        // The length, then the value.
        for _ in 0..2 {
            line.clear();
            if reader.read_until(b'\n', &mut line)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            hasher.write(&line);
        }
    }
    Ok(hasher.finish())
}
