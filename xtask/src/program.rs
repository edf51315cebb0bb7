//! A program that runs beside others until its stdin is closed, and says things line by line on stdout.

use crate::process::Guard;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A running program.
pub(crate) struct Running {
    name: String,
    guard: Guard,
    stdin: Option<ChildStdin>,
    reader: Option<JoinHandle<()>>,
}

impl Running {
    /// Starts a program. Every whole line that it says is given to `hear`, and kept in `folder` as `name`.jsonl, beside
    /// its stderr in `name`.log.
    pub(crate) fn start(
        mut command: Command,
        folder: &Path,
        name: &str,
        hear: impl FnMut(&str) + Send + 'static,
    ) -> Result<Running, String> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        command.stderr(appended(&folder.join(format!("{name}.log")))?);
        let mut guard = Guard::start(&mut command)?;
        let stdin = guard.child().stdin.take();
        let said = guard.child().stdout.take();
        let copy = appended(&folder.join(format!("{name}.jsonl")))?;
        let reader = said.map(|said| std::thread::spawn(move || listen(said, copy, hear)));
        Ok(Running { name: name.to_owned(), guard, stdin, reader })
    }

    /// Says a line to the program.
    pub(crate) fn say(&mut self, line: &str) -> Result<(), String> {
        let stdin = self.stdin.as_mut().ok_or("stdin is closed")?;
        writeln!(stdin, "{line}").map_err(|e| format!("{} does not listen any more: {e}", self.name))
    }

    /// Whether the program has ended by itself.
    pub(crate) fn has_ended(&mut self) -> Result<bool, String> {
        Ok(self.guard.ended()?.is_some())
    }

    /// Stops it in its tracks (`SIGSTOP`) until it may go on.
    pub(crate) fn pause(&self) {
        self.guard.pause();
    }

    /// Lets it go on (`SIGCONT`).
    pub(crate) fn resume(&self) {
        self.guard.resume();
    }

    /// Kills it at once.
    pub(crate) fn kill(self) {
        self.guard.kill();
        self.reader.map(JoinHandle::join);
    }

    /// Closes its stdin: it should come to an end.
    pub(crate) fn close(&mut self) {
        self.stdin = None;
    }

    /// Closes its stdin and waits for a good end.
    pub(crate) fn finish(&mut self, limit: Duration) -> Result<(), String> {
        self.close();
        let status = self.guard.wait(Instant::now() + limit)?;
        if status.is_some() {
            self.reader.take().map(JoinHandle::join);
        }
        let name = &self.name;
        match status {
            Some(status) if status.success() => Ok(()),
            Some(status) => Err(format!("{name} ended with {status}")),
            None => Err(format!("{name} did not end within {} s", limit.as_secs())),
        }
    }
}

fn appended(path: &Path) -> Result<File, String> {
    let open = OpenOptions::new().create(true).append(true).open(path);
    open.map_err(|e| format!("cannot write {}: {e}", path.display()))
}

/// Takes down whole lines; a killed program may leave a torn one.
fn listen(said: ChildStdout, mut copy: File, mut hear: impl FnMut(&str)) {
    for line in BufReader::new(said).lines().map_while(Result::ok) {
        // The copy is for people; what is heard is what counts.
        let _ = writeln!(copy, "{line}");
        hear(&line);
    }
}
