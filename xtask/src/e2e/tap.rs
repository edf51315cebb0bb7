//! `ottla tap` between a client and the broker, with every frame written to a file.

use crate::process::{self, Guard};
use std::fs::File;
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A running tap.
pub(crate) struct Tap {
    /// Where the client connects.
    pub(crate) address: SocketAddr,
    guard: Guard,
    frames: PathBuf,
}

impl Tap {
    /// Starts one for a client and returns when it takes connections.
    pub(crate) fn start(broker: SocketAddr, client: &str) -> Result<Tap, String> {
        let folder = process::root().join("target/e2e");
        let frames = folder.join(format!("tap-{client}.jsonl"));
        let log = folder.join(format!("tap-{client}.log"));
        let create =
            |path: &PathBuf| File::create(path).map_err(|e| format!("cannot write {}: {e}", path.display()));
        let address = process::local(process::free_port()?);
        let mut command = Command::new(process::built("release/ottla"));
        command.args(["tap", "--json", "--bytes", "--listen", &address.to_string()]);
        command.args(["--to", &broker.to_string()]);
        command.stdin(Stdio::null()).stdout(create(&frames)?).stderr(create(&log)?);
        let mut guard = Guard::start(&mut command)?;
        let deadline = Instant::now() + Duration::from_secs(30);
        while let Err(refused) = TcpStream::connect(address) {
            let ended = guard.ended()?.is_some();
            if ended || Instant::now() >= deadline {
                return Err(format!("ottla tap takes no connections: {refused}; see {}", log.display()));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(Tap { address, guard, frames })
    }

    /// Ends it; returns the file of frames.
    pub(crate) fn stop(self) -> PathBuf {
        drop(self.guard);
        self.frames
    }
}
