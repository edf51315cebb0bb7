//! Child processes that never outlive the chore: each in its own process group, told to end when xtask ends, with a
//! deadline.

use rustix::process::{Pid, Signal, kill_process_group};
use std::ffi::OsStr;
use std::io::Read;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The repository's root folder: the parent of this crate's.
pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}

/// A file that cargo builds, such as `release/ottla`, in the target folder that cargo uses.
pub(crate) fn built(path: &str) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from).join(path)
}

/// A port of 127.0.0.1.
pub(crate) fn local(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}

/// A TCP port of 127.0.0.1 that was free a moment ago.
pub(crate) fn free_port() -> Result<u16, String> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).map_err(|e| format!("no free port: {e}"))?;
    let address = listener.local_addr().map_err(|e| format!("no free port: {e}"))?;
    Ok(address.port())
}

/// Runs a command to its end with its output shown; an error names the command.
pub(crate) fn run<S: AsRef<OsStr>>(folder: &Path, words: &[S]) -> Result<(), String> {
    let mut command = command(folder, words)?;
    let shown = format!("{command:?}");
    let status = command.status().map_err(|e| format!("cannot run {shown}: {e}"))?;
    match status.success() {
        true => Ok(()),
        false => Err(format!("{shown} in {} ended with {status}", folder.display())),
    }
}

/// Installs a Debian package unless its command of the same name is there.
pub(crate) fn install_package(package: &str) -> Result<(), String> {
    let root = root();
    let found = Command::new("sh").args(["-c", "command -v \"$0\" >/dev/null", package]).status();
    if found.is_ok_and(|status| status.success()) {
        return Ok(());
    }
    run(&root, &["apt-get", "update", "-qq"])?;
    run(&root, &["apt-get", "install", "-y", "-qq", "--no-install-recommends", package])
}

/// A command from its words, to be run in `folder`.
pub(crate) fn command<S: AsRef<OsStr>>(folder: &Path, words: &[S]) -> Result<Command, String> {
    let (program, arguments) = words.split_first().ok_or("an empty command")?;
    let mut command = Command::new(program);
    command.args(arguments).current_dir(folder);
    Ok(command)
}

/// A running child whose whole process group is killed when this is dropped.
pub(crate) struct Guard {
    child: Child,
}

impl Guard {
    /// Starts the command in a process group of its own. Call it from the main thread: on Linux the child receives a
    /// signal to end when the thread that started it is gone.
    pub(crate) fn start(command: &mut Command) -> Result<Guard, String> {
        command.process_group(0);
        #[cfg(target_os = "linux")]
        end_with_parent(command);
        let child = command.spawn().map_err(|e| format!("cannot start {command:?}: {e}"))?;
        Ok(Guard { child })
    }

    /// The child's process id.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// The child itself, to take its pipes.
    pub(crate) fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// Kills the whole process group at once (`kill -9`) and waits for its end.
    pub(crate) fn kill(mut self) {
        self.signal(Signal::KILL);
        // It cannot refuse; the drop that follows finds it gone.
        let _ = self.child.wait();
    }

    /// Stops the whole process group where it is, until [`Guard::resume`].
    pub(crate) fn pause(&self) {
        self.signal(Signal::STOP);
    }

    /// Lets it go on.
    pub(crate) fn resume(&self) {
        self.signal(Signal::CONT);
    }

    /// The exit status, when the child has ended.
    pub(crate) fn ended(&mut self) -> Result<Option<ExitStatus>, String> {
        self.child.try_wait().map_err(|e| format!("cannot wait for process {}: {e}", self.child.id()))
    }

    /// Waits for the end of the child, at most until the deadline.
    pub(crate) fn wait(&mut self, deadline: Instant) -> Result<Option<ExitStatus>, String> {
        loop {
            if let Some(status) = self.ended()? {
                return Ok(Some(status));
            }
            if Instant::now() >= deadline {
                return Ok(None);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = Pid::from_raw(self.child.id() as i32) {
            // The group may be gone already; then there is nothing to end.
            let _ = kill_process_group(group, signal);
        }
    }
}

impl Drop for Guard {
    /// Asks politely, waits five seconds, then kills.
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            self.signal(Signal::TERM);
            let _ = self.wait(Instant::now() + Duration::from_secs(5));
        }
        self.signal(Signal::KILL);
        let _ = self.child.wait();
    }
}

#[cfg(target_os = "linux")]
fn end_with_parent(command: &mut Command) {
    // SAFETY: the closure runs between fork and exec and makes one system call that is safe there; it allocates
    // nothing.
    unsafe {
        command.pre_exec(|| {
            rustix::process::set_parent_process_death_signal(Some(Signal::TERM))?;
            Ok(())
        });
    }
}

/// What a finished command left.
pub(crate) struct Output {
    /// The exit status; none when the deadline passed and the child was killed.
    pub(crate) status: Option<ExitStatus>,
    /// Everything written to stdout, invalid UTF-8 replaced.
    pub(crate) stdout: String,
    /// Everything written to stderr, invalid UTF-8 replaced.
    pub(crate) stderr: String,
}

/// Runs a command to its end or the deadline and returns what it printed.
pub(crate) fn capture(command: &mut Command, limit: Duration) -> Result<Output, String> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut guard = Guard::start(command)?;
    let stdout = collect(guard.child.stdout.take());
    let stderr = collect(guard.child.stderr.take());
    let status = guard.wait(Instant::now() + limit)?;
    drop(guard);
    Ok(Output { status, stdout: text(stdout), stderr: text(stderr) })
}

fn collect<R: Read + Send + 'static>(pipe: Option<R>) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            // What was read before an error is still worth showing.
            let _ = pipe.read_to_end(&mut bytes);
        }
        bytes
    })
}

fn text(reader: JoinHandle<Vec<u8>>) -> String {
    String::from_utf8_lossy(&reader.join().unwrap_or_default()).into_owned()
}
