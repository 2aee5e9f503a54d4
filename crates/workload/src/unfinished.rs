//! Files that get their names only when they are complete.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use crate::WorkloadError;

/// A file under construction: hidden, in the same directory, under another name. [`UnfinishedFile::finish`] renames it
/// in one step; dropped before, it leaves nothing behind, and an existing file of that name remains.
#[derive(Debug)]
pub struct UnfinishedFile {
    path: PathBuf,
    partial: PathBuf,
    out: BufWriter<File>,
    finished: bool,
}

impl UnfinishedFile {
    /// Begins a file that gets this name when it is finished.
    pub fn create(path: &Path) -> Result<UnfinishedFile, WorkloadError> {
        let (partial, file) = create_hidden(path)?;
        let out = BufWriter::with_capacity(1 << 18, file);
        Ok(UnfinishedFile { path: path.to_owned(), partial, out, finished: false })
    }

    /// Gives the file its name once it is completely on the disk.
    pub fn finish(mut self) -> Result<(), WorkloadError> {
        let written = self.out.flush().and_then(|()| self.out.get_ref().sync_all());
        written.map_err(|cause| refused(&self.partial, "written", cause))?;
        std::fs::rename(&self.partial, &self.path).map_err(|cause| refused(&self.path, "written", cause))?;
        self.finished = true;
        Ok(())
    }

    /// Gives its final name.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes; an error names the file.
    pub(crate) fn put(&mut self, bytes: &[u8]) -> Result<(), WorkloadError> {
        self.out.write_all(bytes).map_err(|cause| refused(&self.partial, "written", cause))
    }
}

impl Write for UnfinishedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

impl Drop for UnfinishedFile {
    fn drop(&mut self) {
        if !self.finished {
            // An error cannot be reported here; the name identifies the leftover.
            let _ = std::fs::remove_file(&self.partial);
        }
    }
}

/// Creates a uniquely named file beside the final one: other writers, or leftovers of killed ones, may exist.
fn create_hidden(path: &Path) -> Result<(PathBuf, File), WorkloadError> {
    let name = path.file_name().ok_or_else(|| refused(path, "written", io::ErrorKind::InvalidFilename.into()))?;
    for number in 0u32.. {
        let mut hidden = std::ffi::OsString::from(".");
        hidden.push(name);
        hidden.push(format!(".{}-{number}.part", std::process::id()));
        let partial = path.with_file_name(hidden);
        match File::options().write(true).create_new(true).open(&partial) {
            Ok(file) => return Ok((partial, file)),
            Err(cause) if cause.kind() == io::ErrorKind::AlreadyExists => {}
            Err(cause) => return Err(refused(&partial, "created", cause)),
        }
    }
    Err(refused(path, "created", io::ErrorKind::AlreadyExists.into()))
}

fn refused(path: &Path, done: &'static str, cause: io::Error) -> WorkloadError {
    WorkloadError::Io { path: path.to_owned(), done, cause }
}
