//! Variables by which a service manager such as systemd talks to the program that it starts: sd_notify(3), sd_watchdog_enabled(3)
//! and sd_listen_fds(3). They reach the program, as if the service manager had started it.

use std::ffi::OsString;
use std::os::unix::process::parent_id;

/// A socket, a time, a number of descriptors, and their names.
const PASSED_ON: [&str; 4] = ["NOTIFY_SOCKET", "WATCHDOG_USEC", "LISTEN_FDS", "LISTEN_FDNAMES"];
/// The process that one of the others is for. Libraries ignore them in any other process.
const ADDRESSEES: [&str; 2] = ["WATCHDOG_PID", "LISTEN_PID"];

/// The variables that are set, with their values in the program.
pub(crate) struct ServiceManager(Vec<(&'static str, OsString)>);

impl ServiceManager {
    /// Reads the variables in the process that becomes the program. Those for its parent, the front, are for the program.
    pub(crate) fn of_this_process() -> ServiceManager {
        ServiceManager::read(|name| std::env::var_os(name), parent_id(), std::process::id())
    }

    fn read(variable: impl Fn(&str) -> Option<OsString>, front: u32, program: u32) -> ServiceManager {
        let found = |name: &'static str| variable(name).map(|value| (name, value));
        let for_program = |(name, value): (&'static str, OsString)| {
            let is_for_front = value == *front.to_string();
            (name, if is_for_front { program.to_string().into() } else { value })
        };
        let addressees = ADDRESSEES.into_iter().filter_map(found).map(for_program);
        ServiceManager(PASSED_ON.into_iter().filter_map(found).chain(addressees).collect())
    }

    /// Sets the variables in this process, which must have one thread.
    pub(crate) fn set(self) {
        for (name, value) in self.0 {
            // SAFETY: the process has one thread, as the caller promises, so that none reads the environment meanwhile.
            unsafe { std::env::set_var(name, value) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_for_the_front_are_for_the_program() {
        let of = |set: &[(&str, &str)]| {
            let variable =
                |name: &str| set.iter().find(|(set, _)| *set == name).map(|(_, value)| OsString::from(value));
            ServiceManager::read(variable, 7, 8).0
        };
        let socket = ("NOTIFY_SOCKET", "/run/systemd/notify");
        let expected = |name, value: &str| vec![("NOTIFY_SOCKET", OsString::from(socket.1)), (name, value.into())];
        assert_eq!(of(&[socket, ("WATCHDOG_PID", "7")]), expected("WATCHDOG_PID", "8"));
        assert_eq!(of(&[socket, ("LISTEN_PID", "7")]), expected("LISTEN_PID", "8"));
        // For a process that has started memtint, and for none.
        assert_eq!(of(&[socket, ("WATCHDOG_PID", "77"), ("SECRET", "7")]), expected("WATCHDOG_PID", "77"));
        assert_eq!(of(&[("SECRET", "7")]), []);
    }
}
