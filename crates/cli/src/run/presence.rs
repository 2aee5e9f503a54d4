//! What others can find of a run while it lasts.

use std::cell::RefCell;
use std::path::PathBuf;
use std::rc::Rc;

use memtint_registry::{Colors, Entry, Registered, Registry};

use super::Request;
use crate::guard::Member;
use crate::output::{WholeFile, warn};

/// What others can find of a run while it lasts: its entry in the registry, and the file with the program's process id.
pub(super) struct Presence {
    command: Vec<String>,
    request: Rc<Request>,
    pid_file: RefCell<Option<WholeFile>>,
    begun: RefCell<Begun>,
}

/// What is to be undone at the end, and what was said.
#[derive(Default)]
struct Begun {
    entry: Option<Registered>,
    pid_file: Option<PathBuf>,
    shared_with: Vec<String>,
}

impl Presence {
    pub(super) fn new(command: Vec<String>, request: Rc<Request>, pid_file: Option<WholeFile>) -> Presence {
        Presence { command, request, pid_file: RefCell::new(pid_file), begun: RefCell::default() }
    }

    /// There is a program.
    pub(super) fn begin(&self, program: i32) {
        self.request.member.borrow_mut().iter_mut().for_each(Member::begin);
        let mut begun = self.begun.borrow_mut();
        if let Some(file) = self.pid_file.take() {
            let path = file.path().to_owned();
            match file.finish(&format!("{program}\n")) {
                Ok(()) => begun.pid_file = Some(path),
                Err(failure) => warn(&failure.to_string()),
            }
        }
        let palette = &self.request.choice.palette;
        let task = self.request.choice.task.as_ref();
        let colors = Colors {
            platform: palette.platform().id(),
            granule_bytes: palette.granule().bytes(),
            selection: &self.request.selection,
            system: task.and_then(|task| Some((self.request.system.as_deref()?, task.name()))),
            shared: task.is_some_and(memtint_system::AssignedTask::shared),
        };
        let Some(entry) = Entry::new(program.unsigned_abs(), self.command.clone(), &colors) else { return };
        match Registry::open().and_then(|registry| registry.enter(&entry)) {
            Ok((entry, conflicts)) => {
                conflicts.iter().for_each(|line| warn(line));
                (begun.entry, begun.shared_with) = (Some(entry), conflicts);
            }
            Err(error) => {
                warn(&format!("the run is not registered, and whether others share its colors is not known: {error}"));
            }
        }
    }

    /// The program has ended. Gives the lines about other runs.
    pub(super) fn end(&self) -> Vec<String> {
        let begun = self.begun.take();
        if let Some(file) = begun.pid_file {
            // It may have been removed already.
            let _ = std::fs::remove_file(file);
        }
        begun.shared_with
    }
}
