//! Descriptors of the program's own files.

use std::os::fd::OwnedFd;
use std::sync::OnceLock;
use std::sync::mpsc::{self, Sender};

/// A copy of a descriptor of the program's.
///
/// To close it may take for ever: the kernel asks the file system, which may be the program's own. Another thread does it, and
/// nobody waits for that one.
pub(super) struct Borrowed(Option<OwnedFd>);

impl Borrowed {
    pub(super) fn new(file: OwnedFd) -> Borrowed {
        Borrowed(Some(file))
    }

    pub(super) fn fd(&self) -> &OwnedFd {
        self.0.as_ref().expect("it is there until the end")
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
            // The thread ends with the process.
            let _ = closer.send(file);
        }
    }
}
