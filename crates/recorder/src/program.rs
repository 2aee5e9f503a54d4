//! Finds the program to record, and QEMU.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read as _;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use crate::RecordError;

/// What QEMU is to run.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Program {
    /// The x86-64 program: of a script, its interpreter.
    pub(crate) file: PathBuf,
    /// Its `argv[0]`.
    pub(crate) name: OsString,
    /// Arguments before the user's: of a script, the interpreter's own arguments and the script.
    pub(crate) before: Vec<OsString>,
}

impl Program {
    /// Finds a program as a shell does, and reads a script's first line as the kernel does.
    pub(crate) fn find(name: &OsStr) -> Result<Program, RecordError> {
        let path =
            in_path(name).ok_or_else(|| RecordError::NoProgram { program: name.to_string_lossy().into_owned() })?;
        let head = read_head(&path)?;
        let Some(line) = head.strip_prefix(b"#!") else {
            check_elf(&path, &head)?;
            return Ok(Program { file: path, name: name.to_owned(), before: Vec::new() });
        };
        let line = line.split(|&byte| byte == b'\n').next().unwrap_or_default().trim_ascii();
        let (interpreter, argument) = match line.iter().position(|byte| matches!(byte, b' ' | b'\t')) {
            Some(at) => (&line[..at], Some(line[at..].trim_ascii())),
            None => (line, None),
        };
        let file = PathBuf::from(OsStr::from_bytes(interpreter));
        check_elf(&file, &read_head(&file)?)?;
        let mut before: Vec<OsString> =
            argument.map(|argument| OsString::from_vec(argument.to_vec())).into_iter().collect();
        before.push(path.into());
        Ok(Program { name: file.clone().into(), file, before })
    }
}

/// Finds QEMU. The static variant cannot load plugins.
pub(crate) fn qemu() -> Result<PathBuf, RecordError> {
    in_path(OsStr::new("qemu-x86_64")).ok_or(RecordError::NoQemu)
}

/// Resolves a name: a name with a slash is a path, any other name is searched for in PATH.
fn in_path(name: &OsStr) -> Option<PathBuf> {
    let is_program =
        |path: &PathBuf| path.metadata().is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0);
    if name.as_bytes().contains(&b'/') {
        return Some(PathBuf::from(name)).filter(|path| path.exists());
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|directory| directory.join(name)).find(is_program)
}

fn read_head(path: &Path) -> Result<Vec<u8>, RecordError> {
    let refuse = |problem: String| RecordError::NotRecordable { path: path.to_owned(), problem };
    let data = path.metadata().map_err(|cause| refuse(cause.to_string()))?;
    if !data.is_file() || data.permissions().mode() & 0o111 == 0 {
        return Err(refuse("it is no executable file".to_owned()));
    }
    let mut head = Vec::new();
    let file = File::open(path).map_err(|cause| refuse(cause.to_string()))?;
    // The kernel reads 256 bytes as well.
    file.take(256).read_to_end(&mut head).map_err(|cause| refuse(cause.to_string()))?;
    Ok(head)
}

/// Programs for x86-64 begin with the mark of ELF, class 2 (64 bits), data 1 (little-endian), and machine 62.
fn check_elf(path: &Path, head: &[u8]) -> Result<(), RecordError> {
    let fits = head.starts_with(b"\x7fELF\x02\x01") && head.get(18..20) == Some(&[62, 0]);
    let problem = "it is no x86-64 program; accepted are ELF files for x86-64, and scripts that name one";
    fits.then_some(()).ok_or_else(|| RecordError::NotRecordable { path: path.to_owned(), problem: problem.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scratch(name: &str, content: &[u8], mode: u32) -> PathBuf {
        let path = std::env::temp_dir().join(format!("memtint-recorder-{}-{name}", std::process::id()));
        std::fs::write(&path, content).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        path
    }

    #[test]
    fn a_script_is_run_by_its_interpreter() {
        let script = scratch("script", b"#! /bin/sh -e\necho\n", 0o755);
        let program = Program::find(script.as_os_str()).unwrap();
        assert_eq!(program.file, Path::new("/bin/sh"));
        assert_eq!(program.before, [OsString::from("-e"), script.clone().into()]);
        std::fs::remove_file(script).unwrap();
    }

    #[test]
    fn what_cannot_be_recorded_is_refused_by_name() {
        let text = scratch("text", b"hello", 0o755);
        let data = scratch("data", b"\x7fELF", 0o644);
        for (path, part) in [(&text, "x86-64"), (&data, "no executable file")] {
            let message = Program::find(path.as_os_str()).unwrap_err().to_string();
            assert!(message.contains(part) && message.contains(path.to_str().unwrap()), "{message}");
            std::fs::remove_file(path).unwrap();
        }
        let message = Program::find(OsStr::new("no-such-program-anywhere")).unwrap_err().to_string();
        assert!(message.contains("no-such-program-anywhere"), "{message}");
    }
}
