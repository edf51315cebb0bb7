//! Runs the broker binary for tests of faults.

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Timeout of steps that normally take milliseconds.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// A running broker; it and the command that wraps it are killed when this is dropped.
pub(crate) struct Ottla {
    child: Child,
    folder: PathBuf,
    pub(crate) address: String,
}

/// The result of a broker that exited.
#[derive(Debug)]
pub(crate) struct ExitedBroker {
    pub(crate) status: ExitStatus,
    /// What it wrote to stderr.
    pub(crate) said: String,
}

impl ExitedBroker {
    /// Checks that the broker failed properly: with a failure status and a sentence, not with a panic or a signal.
    #[track_caller]
    pub(crate) fn assert_has_reason(&self, case: &str) {
        let sentence = self.said.lines().any(|line| line.starts_with("ottla: ") && line.len() > 20);
        // Before the program begins, the loader can report the error.
        let loader = self.said.contains("error while loading shared libraries");
        assert!(sentence || loader, "{case}: no sentence that says why: {self:?}");
        assert!(!self.said.contains("panicked"), "{case}: {self:?}");
        assert!(self.status.code().is_some_and(|code| code != 0), "{case}: {self:?}");
    }
}

impl Ottla {
    /// Starts the binary on a folder.
    pub(crate) fn start(folder: &Path) -> Ottla {
        Ottla::start_within(&[], folder).unwrap()
    }

    /// Starts it with a wrapper in front, such as `strace -f`.
    pub(crate) fn start_within(words: &[String], folder: &Path) -> Result<Ottla, ExitedBroker> {
        Ottla::start_with(words, folder, &["--listen".to_owned(), "127.0.0.1:0".to_owned()])
    }

    /// As [`Ottla::start_within`], with arguments of the broker.
    pub(crate) fn start_with(
        words: &[String],
        folder: &Path,
        more: &[String],
    ) -> Result<Ottla, ExitedBroker> {
        let said = folder.with_extension("stderr");
        let binary = std::env::var("OTTLA_BINARY").unwrap_or_else(|_| env!("CARGO_BIN_EXE_ottla").to_owned());
        let all = words.iter().cloned().chain([binary]);
        let all: Vec<String> = all.collect();
        let mut command = Command::new(&all[0]);
        command.args(&all[1..]).args(["serve", "--http", "off", "--log", "warn"]).args(more);
        // The value of the test runner would add folders to the search of the loader.
        command.env_remove("LD_LIBRARY_PATH");
        command.arg("--data").arg(folder).process_group(0);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(File::create(said).unwrap());
        let mut child = command.spawn().unwrap();
        let line = first_line(&mut child);
        let mut ottla = Ottla { child, folder: folder.to_owned(), address: String::new() };
        match line.strip_prefix("Ottla serves on ").and_then(|rest| rest.split_once(',')) {
            Some((address, _)) => {
                ottla.address = address.to_owned();
                Ok(ottla)
            }
            None => Err(ottla.wait()),
        }
    }

    /// The process id of the broker itself, not of its wrapper.
    fn pid(&self) -> Pid {
        let text = fs::read_to_string(self.folder.join("lock")).unwrap();
        Pid::from_raw(text.trim().parse().unwrap()).unwrap()
    }

    /// The result, if it has exited.
    pub(crate) fn ended(&mut self) -> Option<ExitedBroker> {
        let status = self.child.try_wait().unwrap()?;
        Some(ExitedBroker { status, said: self.said() })
    }

    /// Waits until it exits.
    pub(crate) fn wait(mut self) -> ExitedBroker {
        let begun = Instant::now();
        loop {
            if let Some(ended) = self.ended() {
                return ended;
            }
            assert!(begun.elapsed() < LONG, "the broker does not end; it said: {}", self.said());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// What it wrote to stderr so far.
    pub(crate) fn said(&self) -> String {
        fs::read_to_string(self.folder.with_extension("stderr")).unwrap()
    }

    /// Stops it with SIGTERM and waits.
    pub(crate) fn stop(self) -> ExitedBroker {
        kill_process(self.pid(), Signal::TERM).unwrap();
        self.wait()
    }

    /// Kills it.
    pub(crate) fn kill(self) {
        drop(self);
    }

    /// Memory it has in use, in bytes.
    pub(crate) fn resident(&self) -> u64 {
        self.memory("VmRSS:")
    }

    /// The most memory it had in use, in bytes.
    pub(crate) fn peak(&self) -> u64 {
        self.memory("VmHWM:")
    }

    /// How many sockets it has open, listening ones and the like included.
    pub(crate) fn sockets(&self) -> usize {
        let files = fs::read_dir(format!("/proc/{}/fd", self.pid().as_raw_nonzero())).unwrap();
        let is_socket = |entry: &fs::DirEntry| {
            fs::read_link(entry.path()).is_ok_and(|to| to.to_string_lossy().starts_with("socket:"))
        };
        files.map_while(Result::ok).filter(is_socket).count()
    }

    fn memory(&self, what: &str) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid().as_raw_nonzero())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(what)).unwrap();
        1024 * line.trim().trim_end_matches(" kB").parse::<u64>().unwrap()
    }
}

impl Drop for Ottla {
    fn drop(&mut self) {
        // The broker first: its wrapper may not kill it. It may have exited already.
        if let Ok(text) = fs::read_to_string(self.folder.join("lock"))
            && let Some(pid) = text.trim().parse().ok().and_then(Pid::from_raw)
            && !self.address.is_empty()
            && matches!(self.child.try_wait(), Ok(None))
        {
            let _ = kill_process(pid, Signal::KILL);
        }
        if let Some(group) = Pid::from_raw(self.child.id() as i32) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = self.child.wait();
    }
}

/// The first line of standard output; empty if there is none. The rest is read and dropped, so that the broker never
/// blocks.
fn first_line(child: &mut Child) -> String {
    let stdout = child.stdout.take().unwrap();
    let (send, receive) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            let _ = send.send(line);
        }
    });
    receive.recv_timeout(LONG).unwrap_or_default()
}

/// The name of a new data folder in a temporary folder.
pub(crate) fn data() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    (folder, data)
}

/// Copies a data folder, with holes where zeros are.
pub(crate) fn copy(from: &Path, to: &Path) {
    let status = Command::new("cp").args(["-r", "--sparse=always"]).arg(from).arg(to).status();
    assert!(status.unwrap().success());
}

/// Changes one byte of a file.
pub(crate) fn flip(file: &Path, at: u64, mask: u8) {
    use std::os::unix::fs::FileExt;
    let file = OpenOptions::new().read(true).write(true).open(file).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ mask], at).unwrap();
}
