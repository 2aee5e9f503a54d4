//! What a search is at, on standard error: for searches that cannot say how much there is left to do.

use std::io::{IsTerminal as _, Write};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::sim::{OFTEN, SELDOM};

/// Tells again and again what a search is at, until it is dropped. A search that is soon over is not told of.
pub(crate) struct Searching {
    at: Arc<Mutex<String>>,
    /// The teller ends with it.
    ends: Option<Sender<()>>,
    teller: Option<JoinHandle<()>>,
}

impl Searching {
    pub(crate) fn new() -> Searching {
        let terminal = std::io::stderr().is_terminal();
        Searching::on(std::io::stderr(), terminal, if terminal { OFTEN } else { SELDOM })
    }

    fn on(mut out: impl Write + Send + 'static, terminal: bool, every: Duration) -> Searching {
        let at = Arc::new(Mutex::new(String::new()));
        let (ends, ended) = mpsc::channel();
        let (said, started) = (Arc::clone(&at), Instant::now());
        let teller = std::thread::spawn(move || {
            let mut told = false;
            while ended.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
                let at = said.lock().unwrap_or_else(PoisonError::into_inner).clone();
                if at.is_empty() {
                    continue;
                }
                let line = format!("searching: {at}, {} s so far", started.elapsed().as_secs());
                // Progress that cannot be shown is no reason to stop.
                let _ = if terminal { write!(out, "\r{line}\x1b[K") } else { writeln!(out, "{line}") };
                told = true;
            }
            if terminal && told {
                let _ = write!(out, "\r\x1b[K");
            }
        });
        Searching { at, ends: Some(ends), teller: Some(teller) }
    }

    /// Says what comes next; nothing, when it is no search.
    pub(crate) fn at(&self, what: String) {
        *self.at.lock().unwrap_or_else(PoisonError::into_inner) = what;
    }
}

impl Drop for Searching {
    fn drop(&mut self) {
        self.ends = None;
        if let Some(teller) = self.teller.take() {
            // A line that could not be told is no reason to fail.
            let _ = teller.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl Lines {
        fn text(&self) -> String {
            String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
        }
    }

    impl Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_long_search_is_told_of_until_it_ends() {
        for terminal in [false, true] {
            let lines = Lines::default();
            let searching = Searching::on(lines.clone(), terminal, Duration::from_millis(1));
            for step in ["frame 1 of 2", "frame 2 of 2"] {
                searching.at(step.to_owned());
                while !lines.text().contains(step) {
                    std::thread::yield_now();
                }
            }
            drop(searching);
            let told = lines.text();
            assert!(told.contains("searching: frame 1 of 2, 0 s so far"), "{told:?}");
            assert_eq!(told.ends_with("\r\x1b[K"), terminal, "a terminal is left clean: {told:?}");
            assert_eq!(told.contains('\n'), !terminal, "elsewhere lines stay: {told:?}");
            std::thread::sleep(Duration::from_millis(5));
            assert_eq!(lines.text(), told, "nothing after the end");
        }
    }

    #[test]
    fn a_short_search_is_not_told_of() {
        let lines = Lines::default();
        let searching = Searching::on(lines.clone(), true, Duration::from_secs(3600));
        searching.at("frame 1 of 1".to_owned());
        drop(searching);
        assert_eq!(lines.text(), "");
    }
}
