//! Copies of the program's file descriptors.

use std::os::fd::OwnedFd;
use std::sync::OnceLock;
use std::sync::mpsc::{self, Sender};

/// A copy of one of the program's descriptors, closed by a background thread.
///
/// Closing flushes the file, and the file system may be a FUSE daemon of the program that never answers.
pub(super) struct Borrowed(Option<OwnedFd>);

impl Borrowed {
    pub(super) fn new(file: OwnedFd) -> Borrowed {
        Borrowed(Some(file))
    }

    pub(super) fn fd(&self) -> &OwnedFd {
        self.0.as_ref().expect("present until drop")
    }
}

impl Drop for Borrowed {
    fn drop(&mut self) {
        static CLOSER: OnceLock<Sender<OwnedFd>> = OnceLock::new();
        let closer = CLOSER.get_or_init(|| {
            let (sender, files) = mpsc::channel();
            std::thread::spawn(move || files.into_iter().for_each(drop));
            sender
        });
        if let Some(file) = self.0.take() {
            // The receiver lives as long as the process.
            let _ = closer.send(file);
        }
    }
}
